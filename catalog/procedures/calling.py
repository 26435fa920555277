"""Finds procedures by name, and calls them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from pyspark_pravega.client.cancellation import shield
from pyspark_pravega.errors import InvalidNameError
from pyspark_pravega.sql.names_elsewhere import PROCEDURES as ELSEWHERE

from .. import protocol as r
from ..protocol.service_replies import MetadataRows, ProcedureDescription
from ..running.tending import QueryServers
from ..storage.catalogs import Catalog
from ..storage.reporting import prefix_errors
from .consumers import CREATE_CONSUMER, DROP_CONSUMER, MOVE_CONSUMER
from .dead_letters import REPLAY_DEAD_LETTER
from .history import COMPACT_HISTORY, CREATE_TAG, DROP_TAG, RESET_QUERY
from .procedure import Procedure, check_arguments
from .queries import START_QUERY, start_query
from .schemas import DELETE_SCHEMA_VERSION, REGISTER_SCHEMA, SET_COMPATIBILITY, VALIDATE_SCHEMA
from .segments import SCALE_STREAM, SEAL_STREAM, TRUNCATE_STREAM
from .stopped_queries import STOP_QUERY, stop_query
from .transactions import ABORT_TRANSACTION, COMMIT_TRANSACTION

NAMESPACE = "system"
PROCEDURES: Mapping[str, Procedure] = {
    procedure.name: procedure
    for procedure in (
        CREATE_TAG,
        DROP_TAG,
        COMPACT_HISTORY,
        TRUNCATE_STREAM,
        SEAL_STREAM,
        SCALE_STREAM,
        REGISTER_SCHEMA,
        VALIDATE_SCHEMA,
        SET_COMPATIBILITY,
        DELETE_SCHEMA_VERSION,
        COMMIT_TRANSACTION,
        ABORT_TRANSACTION,
        CREATE_CONSUMER,
        MOVE_CONSUMER,
        DROP_CONSUMER,
        RESET_QUERY,
        REPLAY_DEAD_LETTER,
        START_QUERY,
        STOP_QUERY,
    )
}
"""All procedures by name, grouped by subject."""


def answer(
    catalog: Catalog, servers: QueryServers, request: r.ListProcedures | r.LoadProcedure | r.CallProcedure
) -> list[str] | ProcedureDescription | MetadataRows:
    """List, describe or call procedures; all of them are in NAMESPACE.

    A call runs to its end, even if nobody waits for it. Raises InvalidNameError if there is no such procedure,
    InvalidOptionError for arguments that do not fit, and the errors of the procedure.
    """
    if isinstance(request, r.ListProcedures):
        return sorted(PROCEDURES) if list(request.namespace) in ([], [NAMESPACE]) else []
    procedure = _find(catalog, request.namespace, request.name)
    shown = catalog.named(NAMESPACE, procedure.name)
    if isinstance(request, r.LoadProcedure):
        if request.given is not None:
            check_arguments(procedure, shown, request.given)
        starts = procedure is START_QUERY
        return ProcedureDescription(
            procedure.name, procedure.columns, procedure.comment, tuple(procedure.parameters), starts
        )
    with prefix_errors("Procedure", shown), shield():
        if procedure.act is not None:
            rows = procedure.act(catalog, request.given)
        elif procedure is START_QUERY:
            rows = start_query(catalog, servers, request)
        else:
            rows = stop_query(catalog, servers, request.given)
        return MetadataRows(tuple(tuple(row) for row in rows))


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
