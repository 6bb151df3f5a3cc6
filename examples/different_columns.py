# %% [markdown]
# # Parties with different columns
#
# A clinic knows the ages and blood pressures of some people, a bank their incomes and debts, and an insurer what they
# cost. They would like to know how cost depends on the rest, and nobody may show their columns to anybody. Each
# publishes a noisy mixture of its own columns; all mix by the same signs, so that the mixtures fit together (Wu et
# al., UAI 2022).
#
# The people are generated, and all parties are played in this process. `dpmpc mix` runs them on machines of their
# own.

# %%
import matplotlib.pyplot as plt
import numpy as np

from dpmpc.owners import BGM, DGM, RMGM

DELTA = 1e-6
rng = np.random.default_rng(0)


def parties(people):
    """Columns of the clinic, the bank and the insurer, each number within [-1, 1]."""
    clinic, bank = rng.uniform(-1, 1, (2, people, 2))
    cost = 0.5 * clinic[:, 0] + 0.2 * clinic[:, 1] - 0.3 * bank[:, 0] + rng.uniform(-0.1, 0.1, people)
    return clinic, bank, cost[:, None].clip(-1, 1)


TRUTH = np.array([0.5, 0.2, -0.3, 0.0])

# %% [markdown]
# ## One release
#
# A million people, and an epsilon of 2 for a person's columns at one party. The last column of the last party is the
# target; any other could be.

# %%
clinic, bank, insurer = parties(1_000_000)
model = RMGM(epsilon=2.0, delta=DELTA).fit([clinic, bank, insurer])
print("found", np.round(model.coef_, 3), "truth", TRUTH)
model.release_.guarantee

# %% [markdown]
# Read the guarantee twice. The budget belongs to a person's columns *at one party*, as in the paper. For all that a
# person has at all three it is weaker, and the guarantee says by how much. With `guarantee="subject"` the budget is
# that of the whole row:

# %%
whole = RMGM(epsilon=2.0, delta=DELTA, guarantee="subject").fit([clinic, bank, insurer])
for name, fitted in (("at one party", model), ("the whole row", whole)):
    print(f"{name:14} error {np.linalg.norm(fitted.coef_ - TRUTH):.3f}")

# %% [markdown]
# ## Three ways to read noisy data
#
# *BGM* regresses noisy rows, and the noise drowns them: its coefficients are nearly 0. *DGM* takes the noise off,
# which may leave a matrix that is close to singular. *RMGM* mixes the rows before it adds noise.

# %% alt="Error of the coefficients against the number of people for BGM, DGM and RMGM: RMGM is lowest and falls"
sizes, trials = [30_000, 100_000, 300_000], 3
for method in (BGM, DGM, RMGM):
    errors = []
    for size in sizes:
        fits = [method(epsilon=2.0, delta=DELTA).fit(list(parties(size))) for _ in range(trials)]
        errors.append(np.median([np.linalg.norm(fitted.coef_ - TRUTH) for fitted in fits]))
    plt.loglog(sizes, errors, "o-", label=method.__name__)
plt.axhline(np.linalg.norm(TRUTH), color="grey", linestyle=":", label="coefficients 0")
plt.xlabel("people")
plt.ylabel("error of the coefficients")
_ = plt.legend()

# %% [markdown]
# Many people are needed. On the dotted line a fit is worth nothing: there one may as well publish zeros.
