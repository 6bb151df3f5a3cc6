"""The cast of the paper: a design, clients, servers, an analyst, and the release that they make.

`planning` goes from a specification to a task and states what to expect of it; `client`, `server` and `analyst` are the
three roles, `simulation` composes them in one process; `release` is what comes out.
"""

from typing import TYPE_CHECKING

from dpmpc.base.faces import face

if TYPE_CHECKING:
    from dpmpc.release.planning import design
    from dpmpc.release.results import NumberTable, Result

__all__ = ["NumberTable", "Result", "design"]

__getattr__, __dir__ = face(
    __name__,
    {
        "planning": ["design"],
        "results": ["NumberTable", "Result"],
    },
)
