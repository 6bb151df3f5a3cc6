# %% [markdown]
# # Low rank, and how to choose k and epsilon
#
# In which few directions do people differ most? `LowRankApproximation` finds them in a noisy sketch. A sketch has k
# rows: few keep little of the data, many take much noise. This notebook looks for the best k, and for the epsilon
# that one can afford, on generated data and by the formulas that `dpmpc plan` uses. Neither needs anybody's data.

# %%
import matplotlib.pyplot as plt
import numpy as np

from dpmpc.data import Schema
from dpmpc.models import LowRankApproximation
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import design
from dpmpc.release.planning.prediction import LowRank, Population, expected_of

PEOPLE, COLUMNS, RANK, SPREAD, EXPLAINED = 100_000, 12, 2, 0.25, 0.8
DELTA = 1e-6
schema = Schema.unit([f"x{number}" for number in range(COLUMNS)])

# %% [markdown]
# ## People who differ in two directions
#
# Twelve columns in [-1, 1], of which two directions hold 80 % of the variance.

# %%
rng = np.random.default_rng(0)
axes = np.linalg.qr(rng.standard_normal((COLUMNS, COLUMNS)))[0]
share = np.full(COLUMNS, (1 - EXPLAINED) / (COLUMNS - RANK))
share[:RANK] = EXPLAINED / RANK
scale = np.sqrt(COLUMNS * SPREAD**2 * share)
X = np.clip(rng.standard_normal((PEOPLE, COLUMNS)) * scale @ axes.T, -1, 1)

# %% [markdown]
# *psi* is the squared distance that a projection loses beyond the best one, for each person; 0 is perfect.

# %%
model = LowRankApproximation(RANK, epsilon=1.0, delta=DELTA).fit(X)
print(f"psi of the sum: {model.excess_risk(X):.2g}")
print(f"psi of a random projection: {model.random_excess_risk(X):.2g}")
print(f"variance in the plane that was found: {np.square(model.transform(X)).sum() / np.square(X).sum():.1%}")

# %% [markdown]
# The default is the sum of second moments, and hard to beat. The rest is about sketches, for rows that are too wide
# for it.
#
# ## How many rows?
#
# At epsilon = 1 no sketch of so few people is of much use, so this takes 5. Crosses are releases of the generated
# people; the line is what `expected_of` predicts from public numbers. It is a first-order formula that knows no
# clipping: trust its order of magnitude, and where its minimum lies.

# %% alt="psi against the rows k of a sketch: crosses of releases around a predicted curve with a minimum in the middle"
aim, population = LowRank(RANK), Population(spread=SPREAD, explained=EXPLAINED)
counts, trials = [25, 50, 100, 200, 400, 800], 3
for k in counts:
    for _ in range(trials):
        fitted = LowRankApproximation(RANK, epsilon=5.0, delta=DELTA, sketch="osnap", rows=k).fit(X)
        plt.plot(k, fitted.excess_risk(X), "kx")
tasks = [design(ReleaseSpec.of(schema, PEOPLE, 5.0, DELTA, sketch="osnap", rows=k)) for k in counts]
plt.loglog(counts, [expected_of(task, aim, population) for task in tasks], label="predicted")
plt.axhline(model.random_excess_risk(X), color="grey", linestyle=":", label="random projection")
plt.xticks(counts, [str(k) for k in counts])
plt.minorticks_off()
plt.xlabel("k")
plt.ylabel("psi")
_ = plt.legend()

# %% [markdown]
# Left to itself `dpmpc` takes a k from public numbers alone:

# %%
design(ReleaseSpec.of(schema, PEOPLE, 5.0, DELTA, purpose="low-rank", sketch="osnap")).sketch.rows

# %% [markdown]
# ## Which epsilon?
#
# Prediction again, before any data. Where a curve meets the dotted line the release is worth nothing; where it is far
# below what you would notice, take a smaller epsilon.

# %% alt="Expected psi against epsilon for sum and sketch, two numbers of people: the sum is far lower"
epsilons = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0]
for people in (10_000, 100_000):
    for sketch in ("sum", "osnap"):
        expected = [
            expected_of(
                design(ReleaseSpec.of(schema, people, e, DELTA, purpose="low-rank", sketch=sketch)), aim, population
            )
            for e in epsilons
        ]
        plt.loglog(epsilons, expected, "o-" if sketch == "sum" else "s--", label=f"{sketch}, {people:,} people")
plt.axhline(model.random_excess_risk(X), color="grey", linestyle=":")
plt.xlabel("epsilon")
plt.ylabel("expected psi")
_ = plt.legend()
