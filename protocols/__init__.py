"""Programs that run among real parties; each reads like its paper's algorithm."""
