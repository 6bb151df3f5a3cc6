"""Showkatbakhsh et al. (ISIT 2018): regression under mutual-information privacy, and an attack."""
