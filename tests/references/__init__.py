"""Slow references in plain Python, from which `make vectors` writes the known answers of tests/vectors/."""
