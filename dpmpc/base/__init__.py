"""What everything rests on: errors, checks of arguments and of what others send, randomness, files."""

from typing import TYPE_CHECKING

from dpmpc.base.faces import face

if TYPE_CHECKING:
    from dpmpc.base.storage import Record, canonical

__all__ = ["Record", "canonical"]

__getattr__, __dir__ = face(
    __name__,
    {
        "storage": ["Record", "canonical"],
    },
)
