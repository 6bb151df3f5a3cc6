"""Data to try things on: public data sets of the papers and a generated population.

Bounds are public constants: most follow from devices, contracts and definitions; those of Songs and Ethylene are column
ranges that others have published (MPyC's demonstration of ridge regression). None is computed from rows here. Real
data sets are not part of the package. `data_folder` states where they are looked for: the prepared files of Power,
Bike, SGEMM, Insurance and Superconduct, or UCI's own; Elevation, Songs and Ethylene as UCI has them, there or at a path
of yours. The generated population describes nobody: for one version of NumPy it depends on its seed and on nothing
else.
"""

from dpmpc.data.datasets.demo import DEMO_BOUNDS, DEMO_FEATURES, demo_population
from dpmpc.data.datasets.secure_sketching import load_power

__all__ = ["DEMO_BOUNDS", "DEMO_FEATURES", "demo_population", "load_power"]
