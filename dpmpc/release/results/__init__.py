"""What results show, whatever they are results of: tables, descriptions of columns, and the forms that people read.

A `Result` is what a model shows, a `Report` what a person reads of releases; both are written as text, plain data, CSV,
LaTeX and, by `page`, HTML. `NumberTable` is the one table of all of them. `describe_moments` gives means, standard
deviations and correlations with their standard errors. All are functions of public values.
"""

from dpmpc.release.results.number_tables import NumberTable
from dpmpc.release.results.result import Result

__all__ = ["NumberTable", "Result"]
