"""Organisations that keep their rows: many rows each (`rows`), or different columns of the same people (`columns`)."""

from typing import TYPE_CHECKING

from dpmpc.base.faces import face

if TYPE_CHECKING:
    from dpmpc.owners.columns import BGM, DGM, RMGM, DataOwner, design

__all__ = ["BGM", "DGM", "RMGM", "DataOwner", "design"]

__getattr__, __dir__ = face(
    __name__,
    {
        "columns": ["BGM", "DGM", "DataOwner", "RMGM", "design"],
    },
)
