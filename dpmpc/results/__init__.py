"""What results say in numbers: tables in the forms that people read, the description of columns, and the look of plots.

`NumberTable` is what results are shown in, as text, CSV, LaTeX, HTML, plain data or a data frame. `describe_moments`
gives means, standard deviations and correlations with their standard errors. Both are functions of public values.
"""

from dpmpc.results.description import OF, Description, describe_moments
from dpmpc.results.number_tables import NumberTable, finite_or_none, latex_text, number_text

__all__ = ["OF", "Description", "NumberTable", "describe_moments", "finite_or_none", "latex_text", "number_text"]
