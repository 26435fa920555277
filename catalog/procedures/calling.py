"""Finds procedures by name, and calls them."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark_pravega.client.recent import Recent
from pyspark_pravega.errors import InvalidNameError
from pyspark_pravega.sql.names_elsewhere import PROCEDURES as ELSEWHERE

from .. import protocol as r
from ..protocol.service_replies import MetadataRows, ProcedureDescription
from ..queries.scan_planning import pickle_tasks
from ..running.tending import QueryServers
from ..storage.catalogs import Catalog
from ..storage.reporting import prefix_errors
from . import consumers, dead_letters, history, lake, queries, savepoints, schemas, segments, transactions
from .procedure import Call, DriverWork, Procedure, check_arguments

NAMESPACE = "system"
_MODULES = (history, lake, segments, schemas, transactions, consumers, dead_letters, queries, savepoints)
PROCEDURES: Mapping[str, Procedure] = {
    procedure.name: procedure
    for module in _MODULES
    for procedure in vars(module).values()
    if isinstance(procedure, Procedure)
}
"""All procedures by name, grouped by subject, in the order of their definitions."""


def answer(
    catalog: Catalog, servers: QueryServers, request: r.ListProcedures | r.LoadProcedure | r.CallProcedure
) -> list[str] | ProcedureDescription | MetadataRows:
    """List, describe or call procedures; all of them are in NAMESPACE.

    Raises InvalidNameError if there is no such procedure,
    InvalidOptionError for arguments that do not fit, and the errors of the procedure.
    """
    if isinstance(request, r.ListProcedures):
        return sorted(PROCEDURES) if list(request.namespace) in ([], [NAMESPACE]) else []
    procedure = _find(catalog, request.namespace, request.name)
    shown = catalog.named(NAMESPACE, procedure.name)
    if isinstance(request, r.LoadProcedure):
        if request.given is not None:
            check_arguments(procedure, shown, request.given)
        starts = procedure is queries.start_query
        return ProcedureDescription(procedure.name, procedure.columns, procedure.comment, procedure.parameters, starts)
    with prefix_errors("Procedure", shown):
        call = Call(catalog, request.given, servers, request.facts, request.done)
        tasks = procedure.plan(call) if procedure.plan is not None and call.done is None else None
        if tasks is not None:
            return MetadataRows((), pickle_tasks(tasks.source), tasks.pending)
        return _act(procedure, call)


_WAITING: Recent[str, tuple[Iterator[Sequence[Any] | DriverWork], DriverWork]] = Recent()
"""The calls for which their drivers take steps now. One that a former service has begun begins again."""


def _act(procedure: Procedure, call: Call) -> MetadataRows:
    """Return the rows of a call, or the steps that its driver takes before it goes on."""
    rows: list[tuple[Any, ...]] = []
    acting = iter(procedure.act(call))
    if call.done is not None and (waiting := _WAITING.pop(call.done.pending)) is not None:
        acting, work = waiting
        work.answers, work.error = call.done.rows, call.done.error
    for part in acting:
        if isinstance(part, DriverWork):
            pending = str(uuid.uuid4())
            _WAITING.put(pending, (acting, part))
            return MetadataRows((), None, pending, part.steps)
        rows.append(tuple(part))
    return MetadataRows(tuple(rows))


def _find(catalog: Catalog, namespace: Sequence[str], name: str) -> Procedure:
    procedure = PROCEDURES.get(name.lower())
    if procedure is not None and list(namespace) == [NAMESPACE]:
        return procedure
    near = [name.lower()] if procedure is not None else difflib.get_close_matches(name.lower(), PROCEDURES, 3)
    hint = f" Did you mean {' or '.join(catalog.named(NAMESPACE, near_name) for near_name in near)}?" if near else ""
    if (instead := ELSEWHERE.get(name.lower())) is not None:
        hint = f" {instead}"
    raise InvalidNameError(
        f"There is no procedure {catalog.named(*namespace, name)}.{hint} SHOW PROCEDURES IN "
        f"{catalog.named(NAMESPACE)} lists all: {', '.join(sorted(PROCEDURES))}."
    )
