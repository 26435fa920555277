"""Savepoints of streaming queries: a checkpoint with what the table knows of the query, and the way back to it.

A directory is a savepoint once it has the file `savepoint.json`, which is written last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace

from pyspark.sql.types import LongType, StringType, TimestampType

from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.changes.remembered_rows import find_release
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert.ledger import LedgerRow, name_writer_of_query, read_ledger, reset_query
from pyspark_pravega.datasource.positions.points_in_time import find_end_now
from pyspark_pravega.errors import InvalidOptionError, ProtocolError, QueryFencedError, UnsupportedOperationError

from ..metadata.metadata_table import column
from ..protocol.message_codec import decode
from ..protocol.service_replies import DriverStep
from ..running.kept_query import KeptQueries, read_clock
from .procedure import Acting, Call, ask, parameter, procedure

_FILE = "savepoint.json"
_REWIND = "rewind"
_RIGHTS = "READ_UPDATE on the stream and on `pyspark-pravega-commits` of its scope"
_SAVEPOINT = parameter("savepoint", "its directory")
_QUERY = column("query", StringType(), "the id of the query", nullable=False)
_BATCH = column("batch", LongType(), "the query's newest micro-batch that its table had, if it had any")
_CHECKPOINT = column("checkpoint", StringType(), "the query's checkpoint", nullable=False)


@dataclass(frozen=True)
class Savepoint:
    """What the file of a savepoint says: the values of `_COLUMNS`, and the rows of queries in the ledger by writer."""

    created: int
    query: str
    batch: int | None
    into: str
    version: int
    stream_cut: str
    checkpoint: str
    release: str
    ledger: Mapping[str, str]

    def row(self, path: str) -> tuple[object, ...]:
        return path, *astuple(self)[:-1]


_COLUMNS = (
    column("savepoint", StringType(), "its directory", nullable=False),
    column("created", TimestampType(), "when it was made", nullable=False),
    _QUERY,
    _BATCH,
    column("into", StringType(), "the table that the query writes to", nullable=False),
    column("version", LongType(), "the newest version of that table", nullable=False),
    column("stream_cut", StringType(), "where that table ended, for VERSION AS OF", nullable=False),
    _CHECKPOINT,
    column("release", StringType(), "the version of pyspark-pravega that made it", nullable=False),
)


@procedure(
    "Makes a savepoint of a streaming query that is stopped: its checkpoint, and which micro-batches its table has.",
    (
        _SAVEPOINT,
        parameter("checkpoint", "the query's checkpoint"),
        parameter("into", "the table that the query writes to, as '<namespace>.<table>'"),
    ),
    _COLUMNS,
    _RIGHTS,
)
def create_savepoint(call: Call) -> Acting[None]:
    _check_not_kept_running(call)
    savepoint = yield from save(call)
    yield savepoint.row(call.find_directory("savepoint"))


def save(call: Call) -> Acting[Savepoint]:
    """Make the savepoint of a query that does not run.

    Raises UnsupportedOperationError if its last micro-batch may not be committed, and the errors of `find_query`.
    """
    path, stream, pravega = call.find_directory("savepoint"), call.find_stream("into"), call.catalog.pravega
    query = yield from find_query(call)
    log = CommitLog(pravega, stream)
    ledger = _read_queries(log)
    row = ledger.get(name_writer_of_query(query))
    if row is not None and not row.done:
        raise UnsupportedOperationError(
            f"Micro-batch {row.epoch} of query {query} may not be committed to stream {stream} yet, because its driver "
            "died then. Start the query once more, which finishes the micro-batch, and stop it."
        )
    savepoint = Savepoint(
        created=read_clock(),
        query=query,
        batch=None if row is None else row.epoch,
        into=call.require("into"),
        version=log.newest(),
        stream_cut=find_end_now(pravega, stream).cut.to_text(),
        checkpoint=call.find_directory("checkpoint"),
        release=find_release(),
        ledger={writer: each.value().decode() for writer, each in ledger.items()},
    )
    copy = DriverStep("copy", savepoint.checkpoint, f"{path}/checkpoint")
    write = DriverStep("write", f"{path}/{_FILE}", json.dumps(asdict(savepoint)))
    yield from ask(call, DriverStep("claim", query), copy, write)
    return savepoint


def find_query(call: Call) -> Acting[str]:
    """Return the id of the query that a savepoint is to be made of.

    Raises InvalidOptionError if its checkpoint does not exist or the savepoint does, and for a table without a ledger
    the errors of `Call.find_stream`.
    """
    path, checkpoint = call.find_directory("savepoint"), call.find_directory("checkpoint")
    call.find_stream("into")
    names, about = yield from ask(call, DriverStep("list", path), DriverStep("read", f"{checkpoint}/metadata"))
    if names:
        raise InvalidOptionError(
            f"'savepoint' => '{path}' is not new, but has {', '.join(names.split()[:5])}. Name a directory that does "
            f"not exist. One without {_FILE} is a savepoint that was not finished, and can be deleted."
        )
    if not about:
        raise InvalidOptionError(
            f"'checkpoint' => '{checkpoint}' is no checkpoint: it has no file 'metadata', which a query writes first. "
            "Name the 'checkpointLocation' of a query that has run."
        )
    return str(json.loads(about)["id"])


def _check_not_kept_running(call: Call) -> None:
    checkpoint = call.find_directory("checkpoint")
    for kept in KeptQueries(call.catalog).all(age=0):
        if kept.definition.checkpoint == checkpoint and not kept.status.state.is_final:
            raise UnsupportedOperationError(
                f"The checkpoint {checkpoint} belongs to the query '{kept.name}', which is {kept.status.state}. Stop "
                "it first: stop_query has an argument 'savepoint' too."
            )


def _read_queries(log: CommitLog) -> dict[str, LedgerRow]:
    """Return the rows of all streaming queries in a ledger, by their writers."""
    return {row.writer: row for row in read_ledger(log) if row.writer.startswith(name_writer_of_query(""))}


@procedure(
    "Lists the savepoints in a directory, the oldest first, without those that were not finished.",
    (parameter("directory", "where their directories are"),),
    _COLUMNS,
    "none at the servers",
)
def list_savepoints(call: Call) -> Acting[None]:
    directory = call.find_directory("directory")
    [names] = yield from ask(call, DriverStep("list", directory))
    paths = [f"{directory}/{name}" for name in names.splitlines()]
    texts = yield from ask(call, *(DriverStep("read", f"{path}/{_FILE}") for path in paths))
    savepoints = [(path, _parse(path, text)) for path, text in zip(paths, texts, strict=True) if text]
    yield from (savepoint.row(path) for path, savepoint in sorted(savepoints, key=lambda each: each[1].created))


def _parse(path: str, text: str) -> Savepoint:
    try:
        return decode(Savepoint, json.loads(text), newer=True)
    except (ValueError, ProtocolError) as error:
        raise InvalidOptionError(f"The savepoint {path} is damaged, or of a newer release: {error}") from None


@procedure(
    "Puts a query that is stopped back to a savepoint. The rows that it has written since stay in its table.",
    (
        _SAVEPOINT,
        parameter("checkpoint", "where the query goes on; by default where it was", optional=True),
        parameter("into", "the table that it writes to from then on; by default the same", optional=True),
        parameter("on_conflict", f"'{_REWIND}' lets it write rows once more that its table has", optional=True),
    ),
    (
        _QUERY,
        _BATCH,
        _CHECKPOINT,
        column("replaced", StringType(), "where the checkpoint is now that was there before"),
        column("conflict", StringType(), "which queries have written to the table since"),
        column("rows_since", LongType(), "that the table has got since, and keeps", nullable=False),
    ),
    _RIGHTS,
)
def restore_savepoint(call: Call) -> Acting[None]:
    path = call.find_directory("savepoint")
    [text] = yield from ask(call, DriverStep("read", f"{path}/{_FILE}"))
    if not text:
        raise InvalidOptionError(f"'savepoint' => '{path}' is no savepoint, because it has no {_FILE}. Name another.")
    saved = _parse(path, text)
    call = replace(call, arguments={"checkpoint": saved.checkpoint, "into": saved.into, **call.arguments})
    checkpoint, stream = call.find_directory("checkpoint"), call.find_stream("into")
    _check_not_kept_running(call)
    log, writer = CommitLog(call.catalog.pravega, stream), name_writer_of_query(saved.query)
    ledger = _read_queries(log)
    conflict, rows_since = _find_conflict(call, saved, log, ledger)
    if (on_conflict := call.arguments.get("on_conflict", _REWIND).lower()) != _REWIND:
        raise InvalidOptionError(f"'on_conflict' => '{on_conflict}' is not valid. Give '{_REWIND}', or leave it out.")
    if conflict is not None and "on_conflict" not in call.arguments:
        raise QueryFencedError(
            f"Since the savepoint {path}, {conflict} has written to stream {stream}. From there the query would write "
            "once more what it has read since. Let it go on in another table, 'into' => '<table>', which begins with "
            f"SELECT * FROM {saved.into} VERSION AS OF {saved.version}; or take rows twice: on_conflict => '{_REWIND}'."
        )
    new, old = (f"{checkpoint}.{word}-{read_clock()}" for word in ("new", "until"))
    [names] = yield from ask(call, DriverStep("list", checkpoint))
    steps = [DriverStep("claim", saved.query), DriverStep("copy", f"{path}/checkpoint", new)]
    steps += [DriverStep("move", checkpoint, old)] if names else []
    yield from ask(call, *steps, DriverStep("move", new, checkpoint))
    log.make_ready()
    # Last: until then a run from the savepoint is fenced.
    own = LedgerRow.read(saved.ledger[writer].encode()) if writer in saved.ledger else None
    reset_query(call.catalog.pravega, stream, log, ledger.get(writer, LedgerRow(writer, log.learn_origin())), own)
    yield saved.query, saved.batch, checkpoint, old if names else None, conflict, rows_since


def _find_conflict(
    call: Call, saved: Savepoint, log: CommitLog, ledger: Mapping[str, LedgerRow]
) -> tuple[str | None, int]:
    """Return which queries have written to the call's table since a savepoint, and how many rows it has got since."""
    writer, never = name_writer_of_query(saved.query), LedgerRow("", 0).state
    states = {writer: LedgerRow.read(text.encode()).state for writer, text in saved.ledger.items()}
    changed = [row for row in ledger.values() if row.state != states.get(row.writer, never)]
    conflict = " and ".join(f"{row.writer} (up to micro-batch {row.epoch})" for row in changed) or None
    end = find_end_now(call.catalog.pravega, call.find_stream("into")).cut
    if end.stream != StreamCut.from_text(saved.stream_cut).stream:
        return conflict, 0
    if not changed and writer not in states and end.to_text() != saved.stream_cut:
        conflict = "a writer that leaves no trace in the ledger, perhaps the query without transactions,"
    return conflict, sum(version.rows for version in log.versions(saved.version + 1))
