"""Data to try things on: public data sets of the papers and a generated population.

Bounds, where a data set has them here, follow from devices, contracts and definitions, never from the rows. Real data
sets are not part of the package. `data_folder` says where Power, Bike, SGEMM, Insurance and Superconduct are looked
for; the others are read from the path of UCI's own file. Songs and Ethylene come without bounds: nobody publishes the
range of a timbre or of a sensor's conductance, so their owner has to choose bounds without looking at the rows. The
generated population describes nobody: for one version of NumPy it depends on its seed and on nothing else.
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
from dpmpc.datasets.demo import DEMO_BOUNDS, DEMO_FEATURES, DEMO_RADIUS, DEMO_TARGET, DemoPopulation, demo_population
from dpmpc.datasets.files import FOLDER_VARIABLE, data_folder
from dpmpc.datasets.secure_sketching import (
    ELEVATION_BOUNDS,
    ELEVATION_TARGET,
    ETHYLENE_NAMES,
    ETHYLENE_TARGET,
    POWER_BOUNDS,
    POWER_TARGET,
    SONGS_NAMES,
    SONGS_TARGET,
    load_elevation,
    load_ethylene,
    load_mnist_4_9,
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
    "ELEVATION_TARGET",
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
