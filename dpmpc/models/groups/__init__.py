"""Regressions by group, and comparisons of groups."""
