"""Faults that are made on purpose, each alone in a copy of the package, to see whether the tests notice them."""
