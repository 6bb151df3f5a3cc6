"""Ridge, logistic and Poisson regression: what is read from releases, and the estimators."""
