# %% [markdown]
# # A yes or a no: logistic regression
#
# Who falls ill? A logistic regression cannot be read from one sum. It takes a few rounds: at public coefficients the
# clients say, in noisy shares, which way they should move. All rounds together have one budget.
#
# The people are generated, so that we may look at the truth.

# %%
import matplotlib.pyplot as plt
import numpy as np

from dpmpc.models import LogisticRegression

rng = np.random.default_rng(0)
PEOPLE, NAMES = 50_000, ("age", "smoker", "exercise")
age = rng.uniform(18, 90, PEOPLE)
smoker = (rng.random(PEOPLE) < 0.25).astype(float)
exercise = rng.uniform(0, 10, PEOPLE)
truth = np.array([0.05, 0.7, -0.15])
features = np.column_stack([age, smoker, exercise])
ill = rng.random(PEOPLE) < 1 / (1 + np.exp(4 - features @ truth))
f"{ill.mean():.1%} are ill"

# %% [markdown]
# ## One fit
#
# Bounds are public: what a column may contain, known before anybody looks.

# %%
BOUNDS = {"x0": (18, 90), "x1": (0, 1), "x2": (0, 10)}
model = LogisticRegression(epsilon=1.0, delta=1e-6, bounds=BOUNDS, simulation_seed=1).fit(features, ill)
found = model.inference()
print(found)

# %% [markdown]
# ## Odds ratios
#
# An interval counts both that these are 50,000 people of many, and the noise that protects them.

# %% alt="Odds ratios with their intervals, beside the truth"
unit = np.array([10, 1, 1])  # ten years of age
low, high = np.exp(found.confidence_intervals.T * unit)
ratio = np.exp(found.coef * unit)
places = np.arange(len(NAMES))
plt.figure(figsize=(6, 3))
plt.errorbar(places, ratio, yerr=[ratio - low, high - ratio], fmt="o", label="private, 95 %")
plt.plot(places, np.exp(truth * unit), "x", color="black", label="truth")
plt.axhline(1, color="grey", linestyle=":")
plt.xticks(places, ("ten years of age", "smoker", "an hour of exercise"))
plt.ylabel("odds ratio")
plt.legend()
plt.tight_layout()

# %% [markdown]
# ## What it costs
#
# The same fit with more or less budget. The error is that of the coefficients, in standard errors of a fit without any
# privacy: below 1, the noise is smaller than the chance that these people and no others were asked.

# %% alt="The error of the coefficients falls with epsilon, and is below the sampling error from about 0.3 on"
weights = (p := 1 / (1 + np.exp(4 - features @ truth))) * (1 - p)
design = np.column_stack([features, np.ones(PEOPLE)])
sampling = np.sqrt(np.diag(np.linalg.inv(design.T @ (design * weights[:, None]))))[:3]
budgets = (0.1, 0.3, 1.0, 3.0)
errors = []
for epsilon in budgets:
    errors.append([])
    for seed in range(3):
        fit = LogisticRegression(epsilon=epsilon, delta=1e-6, bounds=BOUNDS, simulation_seed=seed).fit(features, ill)
        errors[-1].append(np.sqrt(np.mean(((fit.coef_.ravel() - truth) / sampling) ** 2)))
plt.figure(figsize=(6, 3))
plt.loglog(budgets, np.mean(errors, axis=1), "o-")
plt.axhline(1, color="grey", linestyle=":")
plt.xlabel("epsilon, of all rounds together")
plt.ylabel("error, in sampling errors")
plt.tight_layout()

# %% [markdown]
# ## What is promised
#
# The guarantee counts all rounds. Those of the parts are in `releases_`.

# %%
model.guarantee_
