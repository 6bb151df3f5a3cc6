"""What the methods are called, in the order of tables."""

SUM, ROUNDS_8, ROUNDS_32, OWNERS = "Sum release", "8 rounds", "32 rounds", "32 rounds, three owners"
ADASSP, BOOSTED = "AdaSSP", "Boosted AdaSSP"
MIXING, HESSIAN, THRICE = "Gaussian mixing", "Hessian mixing", "Hessian mixing, T = 3"
OBJECTIVE, DESCENT, TUKEY = "objective perturbation", "DP-GD, tuned", "TukeyEM"
DIFFPRIVLIB, OPENDP = "diffprivlib", "OpenDP"
OURS = (SUM, ROUNDS_8, ROUNDS_32, OWNERS)
PEERS = (ADASSP, BOOSTED, MIXING, HESSIAN, THRICE, OBJECTIVE, DESCENT, TUKEY, DIFFPRIVLIB, OPENDP)
