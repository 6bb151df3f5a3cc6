# %% [markdown]
# # Ridge regression without a curator
#
# A regression on people's data usually needs somebody who may see everybody's row. Here nobody does: each person
# sends noisy shares to three servers, and only a noisy sum is opened. What does that cost in accuracy?
#
# The people are generated, so that we may look at the truth. In this notebook clients and servers are played in one
# process; `dpmpc demo` runs the same with processes and TLS.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np

from dpmpc import UtilityWarning
from dpmpc.data import DEMO_BOUNDS, DEMO_FEATURES, demo_population
from dpmpc.models import RidgeRegression
from dpmpc.models.papers import SSP, LocalGaussian

warnings.simplefilter("ignore", UtilityWarning)  # fits of few people are shown on purpose
EPSILON, DELTA = 1.0, 1e-6
table, truth, _ = demo_population(50_000)
people, income = table.values[:, :-1], table.values[:, -1]
bounds = {f"x{number}": (column.lower, column.upper) for number, column in enumerate(DEMO_BOUNDS.columns[:-1])}
bounds["y"] = (DEMO_BOUNDS.columns[-1].lower, DEMO_BOUNDS.columns[-1].upper)
len(people), DEMO_FEATURES

# %% [markdown]
# ## One fit
#
# `bounds` is public: what a column may contain, known before anybody looks. `fit` does all of it: clip, encode,
# noise, share, add up, open, solve.

# %%
model = RidgeRegression(epsilon=EPSILON, delta=DELTA, bounds=bounds).fit(people, income)
model.guarantee_

# %% [markdown]
# Everything below is computed from that one release, and costs no more privacy. The intervals count the sampling of
# the people and the noise. What is drawn is how far each is off the truth.

# %% alt="How far each of five private coefficients is off the truth, with its 95 % interval"
found = model.inference()
places = np.arange(len(truth))
plt.figure(figsize=(6, 3))
reach = np.abs(found.confidence_intervals - found.coef[:, None]).T
plt.errorbar(places, found.coef - truth, yerr=reach, fmt="o", label="private, 95 %")
plt.axhline(0, color="grey", linestyle=":", label="truth")
plt.xticks(places, DEMO_FEATURES, rotation=20)
plt.ylabel("thousands for each unit")
_ = plt.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
plt.tight_layout()

# %% [markdown]
# ## Beside a curator, and beside the local model
#
# *phi* is the cost of a fit over the least cost; 1 is perfect. The trusted curator sees all rows and adds noise once.
# In the local model everybody hides alone. All have the same epsilon and delta.

# %%
rows = DEMO_BOUNDS.normalise(table.values)
factors = {name: [] for name in ("curator", "here", "here, a sketch", "local model")}
for seed in range(5):
    curator = SSP(epsilon=EPSILON, delta=DELTA, simulation_seed=seed).fit(rows[:, :-1], rows[:, -1])
    local = LocalGaussian(epsilon=EPSILON, delta=DELTA, simulation_seed=seed).fit(rows[:, :-1], rows[:, -1])
    factors["curator"].append(model.approximation_factor(people, income, curator.model_))
    factors["local model"].append(model.approximation_factor(people, income, local.model_))
    for name, sketch in (("here", "sum"), ("here, a sketch", "osnap")):
        fitted = RidgeRegression(epsilon=EPSILON, delta=DELTA, bounds=bounds, sketch=sketch).fit(people, income)
        factors[name].append(fitted.approximation_factor(people, income))
for name, values in factors.items():
    print(f"{name:15} phi {np.mean(values):.4f}")
print(f"{'predict a mean':15} phi {model.trivial_factor(people, income):.4f}")

# %% [markdown]
# The sum of second moments is as good as a curator. The sketch is the paper's way; with six columns and fifty
# thousand people it cannot compete. It has its place where rows are so wide that their products cannot be sent
# ("Choose sketch or sum" in the documentation).
#
# ## More people
#
# The noise stays the same, whatever the number of people, so that its share falls.

# %% alt="phi - 1 against people: the sum falls far below the line of predicting the mean, osnap stays near it"
sizes = [1000, 3000, 10_000, 30_000]
for sketch in ("sum", "osnap"):
    excess = []
    for size in sizes:
        fitted = RidgeRegression(epsilon=EPSILON, delta=DELTA, bounds=bounds, sketch=sketch).fit(
            people[:size], income[:size]
        )
        excess.append(fitted.approximation_factor(people[:size], income[:size]) - 1)
    plt.loglog(sizes, excess, "o-", label=sketch)
plt.axhline(model.trivial_factor(people, income) - 1, color="grey", linestyle=":", label="predict the mean")
plt.xlabel("people")
plt.ylabel("phi - 1")
_ = plt.legend()
