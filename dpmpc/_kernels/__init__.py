"""Compiled kernels. Each is reached only through the module that owns its idea."""
