"""What a server is told to start and to stop."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

from pyspark_pravega.errors import InvalidNameError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import split_name

from ..protocol.replies import QueryCommands, QueryStart, QueryStop
from ..storage.catalogs import Catalog
from ..storage.spelling import resolve_scope
from .kept_query import KeptQuery

Run: TypeAlias = tuple[str, str, int]
"""The scope and the name of a query, and the epoch of its lease."""


class Commands:
    """Collects commands."""

    def __init__(self, catalog: Catalog) -> None:
        """Begin without commands."""
        self._catalog = catalog
        self._start: list[QueryStart] = []
        self._stop: dict[Run, QueryStop] = {}

    def start(self, kept: KeptQuery) -> None:
        """Have a query started. Raises InvalidNameError if its row does not name a table of the row's own scope."""
        definition = kept.definition
        trigger = None if definition.trigger is None else o.TRIGGER_OF_BATCHES.type.parse(definition.trigger)
        interval = trigger // timedelta(milliseconds=1) if isinstance(trigger, timedelta) else 0
        self._start.append(
            QueryStart(
                kept.scope,
                kept.name,
                kept.status.epoch,
                query=definition.query,
                into=_name_table(self._catalog, kept),
                checkpoint=definition.checkpoint,
                output_mode=definition.output_mode,
                available_now=isinstance(trigger, str),
                interval=interval,
                options=definition.options,
                settings=definition.settings,
                catalog=definition.catalog or self._catalog.name,
                namespace=definition.namespace,
            )
        )

    def stop(self, run: Run, *, at_once: bool = True) -> None:
        """Have a run stopped, if not at once after its micro-batch."""
        known = self._stop.get(run)
        self._stop[run] = QueryStop(*run, at_once or (known is not None and known.at_once))

    def all(self) -> QueryCommands:
        """Return the commands."""
        return QueryCommands(tuple(self._start), tuple(self._stop.values()))


def _name_table(catalog: Catalog, kept: KeptQuery) -> str:
    """Return the table that a query writes to, in SQL. The result is only a name, whoever has written the row."""
    parts = split_name(kept.definition.into)
    if len(parts) != 2 or resolve_scope(catalog, parts[:1]) != kept.scope:
        raise InvalidNameError(
            f"The query is kept in scope {kept.scope}, but writes into '{kept.definition.into}'. A query writes into a "
            "table of the scope that keeps it: remove it with stop_query, and start it again."
        )
    return catalog.named(*parts)
