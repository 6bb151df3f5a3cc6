"""What the methods are called, in the order of tables."""

SUM, TWO_ROUNDS = "Sum release", "Sum, two rounds"
ADASSP, BOOSTED = "AdaSSP", "Boosted AdaSSP"
MIXING, HESSIAN, THRICE = "Gaussian mixing", "Hessian mixing", "Hessian mixing, T = 3"
OBJECTIVE, DESCENT, TUKEY = "objective perturbation", "DP-GD, tuned", "TukeyEM"
OURS = (SUM, TWO_ROUNDS)
PEERS = (ADASSP, BOOSTED, MIXING, HESSIAN, THRICE, OBJECTIVE, DESCENT, TUKEY)
