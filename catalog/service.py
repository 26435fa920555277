"""The catalog service: one process per driver, answering the JVM adapter's requests over stdin and stdout.

A request is one line of JSON `{"id", "operation", "conf", "arguments"}`, an answer `{"id", "result"}` or
`{"id", "error": {"condition", "sql_state", "message"}}`. Requests run concurrently and are answered in any order.
Every request carries the catalog's conf, so the process has no state that a restart would lose but open INSERTs, whose
handles are enough to finish them. When stdin closes the driver is gone: open INSERTs are aborted and the process ends.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

from pyspark.sql.types import StructType

from pyspark_pravega.datasource.changes.planning import Former, plan_changes
from pyspark_pravega.datasource.changes.stream import (
    ChangesMemory,
    Position,
    end_position,
    plan_new_changes,
    start_position,
)
from pyspark_pravega.datasource.insert.prepare import table_for_write
from pyspark_pravega.datasource.scan.planning import PlannedScan, plan_scan
from pyspark_pravega.datasource.spark_functions import PYTHON, pickled_read
from pyspark_pravega.datasource.tables.change_range import ChangeRange
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InternalError, PravegaError, UnsupportedOperationError
from pyspark_pravega.formats.core.spark_schema import spark_schema_of
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import quote_all
from pyspark_pravega.sql.refusals import refusal

from . import altering, changes, namespaces, tables
from .connections import Catalog, Connections
from .inserts import Inserts
from .naming import about

LOG = logging.getLogger(__name__)
THREADS = 64
Arguments = Mapping[str, Any]


class Service:
    """The operations, by the name that the adapter calls them."""

    def __init__(self) -> None:
        self._connections = Connections()
        self._inserts = Inserts()
        self._changes = ChangesMemory()
        self._operations: dict[str, Callable[[Catalog, Arguments], Any]] = {
            "default_namespace": lambda c, a: namespaces.default_namespace(c),
            "list_namespaces": lambda c, a: namespaces.list_namespaces(c),
            "load_namespace": lambda c, a: namespaces.load_namespace(c, a["namespace"]),
            "create_namespace": lambda c, a: namespaces.create_namespace(c, a["namespace"], a["properties"]),
            "alter_namespace": self._refuse_alter_namespace,
            "drop_namespace": lambda c, a: namespaces.drop_namespace(c, a["namespace"], a["cascade"]),
            "list_tables": lambda c, a: tables.list_tables(c, a["namespace"]),
            "load_table": lambda c, a: tables.load(c, a["namespace"], a["name"], a["options"], a["writing"]),
            "table_exists": lambda c, a: tables.exists(c, a["namespace"], a["name"], a["creating"]),
            "create_table": self._create_table,
            "alter_table": lambda c, a: altering.alter(c, a["namespace"], a["name"], a["changes"]),
            "drop_table": lambda c, a: tables.drop(c, a["namespace"], a["name"]),
            "refuse": self._refuse,
            "load_changelog": self._load_changelog,
            "plan_scan": self._plan_scan,
            "plan_changes": self._plan_changes,
            "start_of_changes": self._start_of_changes,
            "end_of_changes": self._end_of_changes,
            "plan_new_changes": self._plan_new_changes,
            "begin_insert": self._begin_insert,
            "commit_insert": lambda c, a: self._inserts.commit(c, _table(a), a["insert"], a["messages"], a["again"]),
            "abort_insert": lambda c, a: self._inserts.abort(c, _table(a), a["insert"]),
        }

    def answer(self, operation: str, conf: Mapping[str, str], arguments: Arguments) -> Any:
        """Carry one request out; raises what went wrong."""
        return self._operations[operation](self._connections.catalog(conf), arguments)

    def close(self) -> None:
        """Abort open INSERTs and close all connections."""
        self._inserts.abort_all()
        self._connections.close()

    def _create_table(self, catalog: Catalog, a: Arguments) -> Any:
        return tables.create(
            catalog,
            a["namespace"],
            a["name"],
            _schema(a["schema"]),
            a["partitions"],
            a["properties"],
            a["adopt"],
            a["constraints"],
        )

    def _refuse(self, catalog: Catalog, a: Arguments) -> Any:
        raise UnsupportedOperationError(refusal(a["statement"], quote_all((catalog.name, *a["namespace"], a["name"]))))

    def _refuse_alter_namespace(self, catalog: Catalog, a: Arguments) -> Any:
        namespaces.load_namespace(catalog, a["namespace"])
        raise UnsupportedOperationError(refusal("ALTER NAMESPACE", quote_all((catalog.name, *a["namespace"]))))

    def _plan_scan(self, catalog: Catalog, a: Arguments) -> Any:
        table = _table(a)
        name = quote_all((catalog.name, table.stream.scope, table.stream.name))
        with about("Table", name):
            options = catalog.options(read=a["options"], properties=table.reading)
            # All scans of a table in one query read up to the same tail; Spark loads the table anew for the next query.
            place = f"{options.get(o.START_STREAM_CUT)} {options.get(o.END_STREAM_CUT)}"
            known = a["tails"].get(place)
            planned = plan_scan(
                catalog.pravega,
                table,
                _schema(a["columns"]),
                options,
                limit=_limit(a),
                count_bad_events=True,
                tail=None if known is None else _tail(known),
            )
        return {
            **_scan(name, table, a, planned),
            "tails": {**a["tails"], place: planned.tail if known is None else known},
        }

    def _load_changelog(self, catalog: Catalog, a: Arguments) -> Any:
        return changes.load_changes(catalog, a["namespace"], a["name"], ChangeRange.from_json(a["range"]), a["options"])

    def _plan_changes(self, catalog: Catalog, a: Arguments) -> Any:
        known = a["tails"].get("changes")
        with changes.asked_for(catalog, _table(a), a["options"]) as asked:
            planned = plan_changes(
                catalog.pravega,
                asked.table,
                asked.range,
                _schema(a["columns"]),
                asked.options,
                limit=_limit(a),
                former=None if known is None else Former(_tail(known), a["tails"]["newest"]),
            )
        tails = {"changes": planned.tail, "newest": planned.newest}
        return {**_scan(asked.name, asked.table, a, planned), "tails": tails}

    def _start_of_changes(self, catalog: Catalog, a: Arguments) -> Any:
        with changes.asked_for(catalog, _table(a), a["options"]) as asked:
            return start_position(catalog.pravega, asked.table, asked.range, asked.options).to_json()

    def _end_of_changes(self, catalog: Catalog, a: Arguments) -> Any:
        with changes.asked_for(catalog, _table(a), a["options"]) as asked:
            return end_position(catalog.pravega, asked.table, asked.options, Position.from_json(a["since"])).to_json()

    def _plan_new_changes(self, catalog: Catalog, a: Arguments) -> Any:
        with changes.asked_for(catalog, _table(a), a["options"]) as asked:
            planned = plan_new_changes(
                catalog.pravega,
                asked.table,
                asked.range,
                _schema(a["columns"]),
                asked.options,
                Position.from_json(a["since"]),
                Position.from_json(a["until"]),
                a["checkpoint"],
                self._changes,
            )
        return _scan(asked.name, asked.table, a, planned)

    def _begin_insert(self, catalog: Catalog, a: Arguments) -> Any:
        table, schema = _table(a), _schema(a["schema"])
        with about("Table", quote_all((catalog.name, table.stream.scope, table.stream.name))):
            options = catalog.options(write=a["options"])
            table = table_for_write(catalog.pravega, table, schema, options)
        return self._inserts.begin(catalog, table, schema, a["tasks"], a["options"])


def _table(arguments: Arguments) -> StreamTable:
    return StreamTable.from_json(arguments["table"])


def _tail(known: Mapping[str, int]) -> dict[int, int]:
    return {int(segment): end for segment, end in known.items()}


def _limit(arguments: Arguments) -> int | None:
    return arguments["limit"] if arguments["limit"] >= 0 else None


def _scan(name: str, table: StreamTable, arguments: Arguments, planned: PlannedScan) -> dict[str, Any]:
    """What the adapter needs of a planned scan to run it and to show it."""
    function, partitions = pickled_read(planned.reader, planned.output)
    shown = ", ".join(_schema(arguments["columns"]).fieldNames()) or "none"
    text = f"{name} ({table.format}) columns: {shown}; segments: {planned.segments}, bytes: {planned.bytes}"
    limit = _limit(arguments)
    return {
        "function": function,
        "python": PYTHON,
        "partitions": partitions,
        "schema": planned.schema.json(),
        "output": planned.output.json(),
        "homes": list(planned.homes),
        "bytes": planned.bytes,
        "description": text if limit is None else f"{text}; limit: {limit}",
    }


def _schema(text: str) -> StructType:
    return spark_schema_of(text)


def _error(error: PravegaError) -> dict[str, str]:
    return {"condition": error.condition, "sql_state": error.sql_state, "message": error.message}


def serve(service: Service, requests: TextIO, replies: TextIO) -> None:
    """Answer requests until there are no more; returns when all that were begun have been answered."""
    lock = threading.Lock()

    def reply(message: dict[str, Any]) -> None:
        line = json.dumps(message)
        with lock:
            replies.write(line + "\n")
            replies.flush()

    def handle(request: dict[str, Any]) -> None:
        try:
            result = service.answer(request["operation"], request["conf"], request["arguments"])
        except PravegaError as error:
            reply({"id": request["id"], "error": _error(error)})
        except Exception as error:
            # A defect of ours: the statement fails with its name, the log has the rest.
            LOG.error("%s failed:\n%s", request["operation"], traceback.format_exc())
            defect = InternalError(f"{type(error).__name__} in '{request['operation']}': {error}")
            reply({"id": request["id"], "error": _error(defect)})
        else:
            reply({"id": request["id"], "result": result})

    with ThreadPoolExecutor(THREADS, thread_name_prefix="request") as pool:
        for line in requests:
            pool.submit(handle, json.loads(line))


def main() -> None:
    """Run the service on this process's stdin and stdout."""
    # Ctrl-C in a shell goes to all of its processes and means the statement: the driver cancels that by a request.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(format="pyspark-pravega: %(levelname)s %(message)s", stream=sys.stderr, level=logging.WARNING)
    # Nothing but answers may reach the pipe, whatever a library prints.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    service = Service()
    try:
        serve(service, sys.stdin, replies)
    except BrokenPipeError:
        LOG.info("The driver closed its end.")
    finally:
        service.close()


if __name__ == "__main__":
    main()
