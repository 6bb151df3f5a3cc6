"""What a column may contain: public bounds, clipping, and the affine map to [-1, 1].

A `Schema` is public and is agreed on before any data is seen. Every client maps its row to [-1, 1] with it and clips
what lies outside, so that no row weighs more than the bounds allow, whatever it holds: sensitivity rests on this and
nothing else. The schema promises nothing by itself, and bounds that were read off the data (`suggest`) are not private.

Source: the local clipping of Burkhardt, Keller, Orlandi and Schwiegelshohn (ICML 2025), with bounds per column.
"""

from dpmpc.bounds.ball import clip_ball, largest_squared_norm
from dpmpc.bounds.codebook import Codebook, Weight
from dpmpc.bounds.columns import Column
from dpmpc.bounds.data_checks import check_table, require_column, suggest, warn_of_bounds
from dpmpc.bounds.schemas import Bounds, Schema, schema
from dpmpc.bounds.variables import Variable

__all__ = [
    "Bounds",
    "Codebook",
    "Column",
    "Schema",
    "Variable",
    "Weight",
    "check_table",
    "clip_ball",
    "largest_squared_norm",
    "require_column",
    "schema",
    "suggest",
    "warn_of_bounds",
]
