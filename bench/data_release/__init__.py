"""Wu et al. (UAI 2022): the figures and the table of multi-party data release."""
