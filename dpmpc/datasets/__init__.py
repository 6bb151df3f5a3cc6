"""Data to try things on: public data sets of the papers and a generated population.

Bounds are public constants: most follow from devices, contracts and definitions; those of Songs and Ethylene are column
ranges that others have published (MPyC's demonstration of ridge regression). None is computed from rows here. Real
data sets are not part of the package. `data_folder` says where they are looked for: the prepared files of Power, Bike,
SGEMM, Insurance and Superconduct, or UCI's own; Elevation, Songs and Ethylene as UCI has them, there or at a path of
yours. The generated population describes nobody: for one version of NumPy it depends on its seed and on nothing else.
"""

from dpmpc.datasets.data_release import (
    BIKE_BOUNDS,
    BIKE_TARGET,
    INSURANCE_BOUNDS,
    INSURANCE_REGIONS,
    INSURANCE_TARGET,
    SGEMM_BOUNDS,
    SGEMM_TARGET,
    SUPERCONDUCT_BOUNDS,
    SUPERCONDUCT_TARGET,
    load_bike,
    load_insurance,
    load_sgemm,
    load_superconduct,
)
from dpmpc.datasets.dataset_files import FOLDER_VARIABLE, data_folder
from dpmpc.datasets.demo import DEMO_BOUNDS, DEMO_FEATURES, DEMO_RADIUS, DEMO_TARGET, DemoPopulation, demo_population
from dpmpc.datasets.mutual_information import load_mnist_4_9
from dpmpc.datasets.secure_sketching import (
    ELEVATION_BOUNDS,
    ELEVATION_FILE,
    ELEVATION_TARGET,
    ETHYLENE_CO_BOUNDS,
    ETHYLENE_FILE,
    ETHYLENE_METHANE_BOUNDS,
    ETHYLENE_NAMES,
    ETHYLENE_TARGET,
    POWER_BOUNDS,
    POWER_TARGET,
    SONGS_BOUNDS,
    SONGS_FILE,
    SONGS_NAMES,
    SONGS_TARGET,
    load_elevation,
    load_ethylene,
    load_power,
    load_songs,
)

__all__ = [
    "BIKE_BOUNDS",
    "BIKE_TARGET",
    "DEMO_BOUNDS",
    "DEMO_FEATURES",
    "DEMO_RADIUS",
    "DEMO_TARGET",
    "ELEVATION_BOUNDS",
    "ELEVATION_FILE",
    "ELEVATION_TARGET",
    "ETHYLENE_CO_BOUNDS",
    "ETHYLENE_FILE",
    "ETHYLENE_METHANE_BOUNDS",
    "ETHYLENE_NAMES",
    "ETHYLENE_TARGET",
    "FOLDER_VARIABLE",
    "INSURANCE_BOUNDS",
    "INSURANCE_REGIONS",
    "INSURANCE_TARGET",
    "POWER_BOUNDS",
    "POWER_TARGET",
    "SGEMM_BOUNDS",
    "SGEMM_TARGET",
    "SONGS_BOUNDS",
    "SONGS_FILE",
    "SONGS_NAMES",
    "SONGS_TARGET",
    "SUPERCONDUCT_BOUNDS",
    "SUPERCONDUCT_TARGET",
    "DemoPopulation",
    "data_folder",
    "demo_population",
    "load_bike",
    "load_elevation",
    "load_ethylene",
    "load_insurance",
    "load_mnist_4_9",
    "load_power",
    "load_sgemm",
    "load_songs",
    "load_superconduct",
]
