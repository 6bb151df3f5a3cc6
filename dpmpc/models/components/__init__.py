"""Low-rank approximations and frequency moments."""
