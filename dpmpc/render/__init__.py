"""What a person reads of a plan, a fit or a release: text, JSON, plots, and report.html.

The page says what a release gave, for whom it is private, what it cost, and how to reproduce it; it is one file and
needs no network. Its functions are exported here. Plans, fits and files that are read again have modules of their own.

Promised: the page is a function of the release, of the answer computed from it, and of public facts and times. So it
may be published wherever the release may. What the data itself would give is not in it.

Not promised: plots where matplotlib is not installed; the page then names what is left out. Seconds and bytes are as
measured, and are not part of the guarantee.
"""

from dpmpc.render.about import About
from dpmpc.render.mixed import mixed_page, write_mixed_report
from dpmpc.render.page import Analysed, command_line, page, write_report

__all__ = ["About", "Analysed", "command_line", "mixed_page", "page", "write_mixed_report", "write_report"]
