"""Computing together: MPyC as a runtime whose parties need not trust each other, and tasks that run on it.

`network` is the runtime, `networked` runs a task on servers that are processes, `mpyc` is the bridge to secure
arrays of MPyC.
"""

from typing import TYPE_CHECKING

from dpmpc.base.faces import face

if TYPE_CHECKING:
    from dpmpc.parties.mpyc import noise, require_room, sketch

__all__ = ["noise", "require_room", "sketch"]

__getattr__, __dir__ = face(
    __name__,
    {
        "mpyc": ["noise", "require_room", "sketch"],
    },
)
