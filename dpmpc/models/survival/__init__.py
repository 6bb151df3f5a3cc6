"""Survival curves and hazard ratios."""
