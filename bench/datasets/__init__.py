"""The public data sets of the papers, with their public bounds.

Bounds are public constants: most follow from devices, contracts and definitions; those of Songs and Ethylene are column
ranges that others have published (MPyC's demonstration of ridge regression). None is computed from rows here. Real
data sets are no part of the project. `bench.datasets.dataset_files.data_folder` states where they are looked for: the
prepared files of Power, Bike, SGEMM, Insurance and Superconduct, or UCI's own; Elevation, Songs and Ethylene as UCI has
them, there or at a path of yours.
"""
