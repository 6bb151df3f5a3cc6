"""What all models share: parts of a release, inference, the statistician's table, what scikit-learn expects."""
