"""Burkhardt et al. (ICML 2025): each figure and table, and what is compared with them."""
