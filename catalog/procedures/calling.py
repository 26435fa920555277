"""Finds procedures by name, and calls them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from pyspark_pravega.errors import InvalidNameError
from pyspark_pravega.sql.names_elsewhere import PROCEDURES as ELSEWHERE

from .. import protocol as r
from ..protocol.service_replies import MetadataRows, ProcedureDescription
from ..queries.scan_planning import pickle_tasks
from ..running.tending import QueryServers
from ..storage.catalogs import Catalog
from ..storage.reporting import prefix_errors
from .consumers import create_consumer, drop_consumer, move_consumer
from .dead_letters import replay_dead_letter
from .history import compact_changes, compact_history, create_tag, drop_tag, reset_query
from .lake import compact_lake, tier
from .procedure import Call, Procedure, check_arguments
from .queries import start_query
from .schemas import delete_schema_version, register_schema, set_compatibility, validate_schema
from .segments import scale_stream, seal_stream, truncate_stream
from .stopped_queries import stop_query
from .transactions import abort_transaction, commit_transaction

NAMESPACE = "system"
PROCEDURES: Mapping[str, Procedure] = {
    procedure.name: procedure
    for procedure in (
        create_tag,
        drop_tag,
        compact_history,
        compact_changes,
        tier,
        compact_lake,
        truncate_stream,
        seal_stream,
        scale_stream,
        register_schema,
        validate_schema,
        set_compatibility,
        delete_schema_version,
        commit_transaction,
        abort_transaction,
        create_consumer,
        move_consumer,
        drop_consumer,
        reset_query,
        replay_dead_letter,
        start_query,
        stop_query,
    )
}
"""All procedures by name, grouped by subject."""


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
        starts = procedure is start_query
        return ProcedureDescription(procedure.name, procedure.columns, procedure.comment, procedure.parameters, starts)
    with prefix_errors("Procedure", shown):
        call = Call(catalog, request.given, servers, request.facts, request.done)
        tasks = procedure.plan(call) if procedure.plan is not None and call.done is None else None
        if tasks is not None:
            return MetadataRows((), pickle_tasks(tasks.source), tasks.pending)
        return MetadataRows(tuple(tuple(row) for row in procedure.act(call)))


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
