"""Read the words of reports by their ids, in the process that has a store open or in another one that finds it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

from numpy import bytes_
from numpy.typing import NDArray

from dpmpc.base.arrays import Bytes
from dpmpc.collect.store.blocks import BlockTables, Page, Span, StoredShare
from dpmpc.collect.store.store_description import DescriptionTable, ReportDatabase, StoreDescription
from dpmpc.collect.upload.report_ids import sorted_ids
from dpmpc.linear.encoding.ring import Ring
from dpmpc.linear.sharing.batch import Share


class StoredReports:
    """The words of the reports of a store.

    Parameters
    ----------
    database : ReportDatabase
        The database that holds them.
    description : StoreDescription
        What it has to hold.
    ring : Ring
        Of the words.
    make : bool
        Whether the tables are made where there are none.
    """

    def __init__(self, database: ReportDatabase, description: StoreDescription, ring: Ring, *, make: bool = False):
        self._database, self._ring = database, ring
        self.table = DescriptionTable(database, description, make=make)
        self.blocks = BlockTables(database, (description.copies, description.width), self.table.bins)

    @contextlib.contextmanager
    def opened(self) -> Iterator[StoredReports]:
        """Yield the reports themselves, which stay open."""
        yield self

    def read(self, ids: Bytes) -> Iterator[Page]:
        """Yield the words of those reports that are here, some at a time, in the order in which they came."""
        first = 0
        for span, part in self.parts(sorted_ids(ids)):
            for page in self.blocks.pages(span, part):
                yield page._replace(places=first + page.places)
            first += len(part)

    def share(self, ids: Bytes) -> Share:
        """Return the words of a batch, a row for each report, in the order of the ids.

        Reading a row of a report that is not here, or is damaged, is a `SpoolError`.
        """
        return StoredShare(self.blocks, self._ring, len(ids), self.parts(sorted_ids(ids)))

    def parts(self, batch: NDArray[bytes_]) -> list[tuple[Span, NDArray[bytes_]]]:
        """Cut ascending ids into those of each span that has any."""
        with self._database.turn():
            spans = list(self.blocks.spans(self.table.read().added))
        parts = zip(spans, self.blocks.cut(batch, spans), strict=True)
        return [(span, part) for span, part in parts if len(part)]


@dataclasses.dataclass(frozen=True)
class StoreLocation:
    """Where another process finds the store of a server: it is sent from one to the other."""

    connect: Callable[[], ReportDatabase]  # opens its database
    description: StoreDescription  # of what has to be there
    ring: Ring  # of the words

    @contextlib.contextmanager
    def opened(self) -> Iterator[StoredReports]:
        """Open the store and yield its reports."""
        with contextlib.closing(self.connect()) as database:
            yield StoredReports(database, self.description, self.ring)
