"""Savepoints of streaming queries: a checkpoint with what the table knows of the query, and the way back to it.

A directory is a savepoint once it has the file `savepoint.json`, which is written last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from functools import partial

from pyspark.sql.types import LongType, StringType, TimestampType

from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.changes.remembered_rows import find_release
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert.ledger import LedgerRow, name_writer_of_query, read_ledger, reset_query
from pyspark_pravega.datasource.positions.identity import StreamIdentity, identify, is_same_stream
from pyspark_pravega.datasource.positions.snapshot import measure_segments, measure_tail
from pyspark_pravega.errors import InvalidOptionError, PravegaError, QueryFencedError, UnsupportedOperationError
from pyspark_pravega.sql.identifiers import split_name

from ..metadata.metadata_table import column
from ..protocol.message_codec import decode
from ..protocol.service_replies import DriverStep
from ..running.kept_query import KeptQueries, read_clock
from ..storage.reporting import warn_once
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
    """What its file says: the values of `_COLUMNS`, the bytes of all versions, and the ledger's rows by writer."""

    created: int
    query: str
    batch: int | None
    into: str
    version: int
    stream_cut: str
    checkpoint: str
    release: str
    committed_bytes: int
    ledger: Mapping[str, str]
    content: str = ""  # how many files and bytes the copy of the checkpoint has
    identity: str = ""  # that of the table's stream

    def row(self, path: str) -> tuple[object, ...]:
        return path, *astuple(self)[:-4]

    def rows(self) -> dict[str, LedgerRow]:
        return {writer: LedgerRow.read(text.encode()) for writer, text in self.ledger.items()}


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
    savepoint = yield from save(call)
    yield savepoint.row(call.find_directory("savepoint"))


def save(call: Call) -> Acting[Savepoint]:
    """Make the savepoint of a query. Raises UnsupportedOperationError if it runs, and the errors of `find_row`."""
    path, checkpoint = call.find_directory("savepoint"), call.find_directory("checkpoint")
    row, stream = (yield from find_row(call)), call.find_stream("into")
    query = row.writer.removeprefix(name_writer_of_query(""))
    _check_not_kept_running(call, query)
    _, content = yield from ask(call, DriverStep("claim", query), DriverStep("copy", checkpoint, f"{path}/checkpoint"))
    log, cut, version, size = _measure_end(call)
    ledger = _read_queries(log)  # last: a micro-batch since the copy, which the end may be behind, shows here
    if not row.done or ledger.get(row.writer, row).state != row.state:
        raise UnsupportedOperationError(
            f"Query {query} runs, or its driver died in a micro-batch that stream {stream} may not have yet. Start the "
            "query once more, which finishes the micro-batch, and stop it. Then choose another directory."
        )
    batch, rows = row.epoch if row.writer in ledger else None, {key: ledger[key].value().decode() for key in ledger}
    into, release, identity = call.require("into"), find_release(), identify(call.catalog.pravega, stream) or ""
    savepoint = Savepoint(
        read_clock(), query, batch, into, version, cut.to_text(), checkpoint, release, size, rows, content, identity
    )
    yield from ask(call, DriverStep("write", f"{path}/{_FILE}", json.dumps(asdict(savepoint))))
    return savepoint


def find_row(call: Call) -> Acting[LedgerRow]:
    """Return the ledger's row of the query that a savepoint is to be made of, by default an empty one.

    Raises InvalidOptionError without a checkpoint or if the savepoint exists, and the errors of `Call.find_stream`.
    """
    path, checkpoint = call.find_directory("savepoint"), call.find_directory("checkpoint")
    log = CommitLog(call.catalog.pravega, call.find_stream("into"))
    names, about = yield from ask(call, DriverStep("list", path), DriverStep("read", f"{checkpoint}/metadata"))
    if names:
        raise InvalidOptionError(
            f"'savepoint' => '{path}' is not new, but has {', '.join(names.split()[:5])}. Name a directory that does "
            f"not exist. One without {_FILE} is a savepoint that was not finished, and can be deleted."
        )
    writer = name_writer_of_query(_read_id(checkpoint, about))
    return _read_queries(log).get(writer, LedgerRow(writer, log.learn_origin()))


def _read_id(checkpoint: str, about: str) -> str:
    """Return the id of the query of a checkpoint, whose file 'metadata' has a text. Raises InvalidOptionError."""
    try:
        return str(json.loads(about)["id"])
    except (ValueError, LookupError, TypeError):
        raise InvalidOptionError(
            f"'checkpoint' => '{checkpoint}' is no checkpoint: it has no file 'metadata' with the id of a query, which "
            "a query writes first. Name the 'checkpointLocation' of a query that has run."
        ) from None


def _check_not_kept_running(call: Call, query: str) -> None:
    checkpoint = call.find_directory("checkpoint")
    for kept in KeptQueries(call.catalog).all(age=0):
        is_same = kept.status.query_id == query or kept.definition.has_checkpoint(checkpoint)
        if is_same and not kept.status.state.is_final:
            raise UnsupportedOperationError(
                f"The checkpoint {checkpoint} belongs to the query '{kept.name}', which is {kept.status.state}. Stop "
                "it first: stop_query has an argument 'savepoint' too."
            )


def _read_queries(log: CommitLog) -> dict[str, LedgerRow]:
    """Return the rows of all streaming queries in a ledger, by their writers."""
    return {row.writer: row for row in read_ledger(log) if row.writer.startswith(name_writer_of_query(""))}


def _measure_end(call: Call) -> tuple[CommitLog, StreamCut, int, int]:
    """Return the log of the call's table, its end, its newest version, and the bytes of all versions."""
    pravega, stream = call.catalog.pravega, call.find_stream("into")
    cut, head = (log := CommitLog(pravega, stream)).tail(lambda until: until or measure_tail(pravega, stream))
    return log, cut, head.version, 0 if head.content is None else head.content.bytes


@procedure(
    "Lists the savepoints in a directory, the oldest first, without those that were not finished.",
    (parameter("directory", "where their directories are"),),
    _COLUMNS,
    "none at the servers",
)
def list_savepoints(call: Call) -> Acting[None]:
    directory = call.find_directory("directory")
    [names] = yield from ask(call, DriverStep("list", directory))
    savepoints = []
    for path in [f"{directory}/{name}" for name in names.splitlines()]:
        try:
            [text] = yield from ask(call, DriverStep("read", f"{path}/{_FILE}"))
            savepoints += [(path, _parse(path, text))] if text else []
        except InvalidOptionError as error:
            warn_once(f"The savepoint was left out: {error.message}")
    yield from (savepoint.row(path) for path, savepoint in sorted(savepoints, key=lambda each: each[1].created))


def _parse(path: str, text: str) -> Savepoint:
    try:
        saved = decode(Savepoint, json.loads(text), newer=True)
        StreamCut.from_text(saved.stream_cut)
        saved.rows()
        StreamIdentity.parse(saved.identity)
        return saved
    except (ValueError, LookupError, TypeError, AttributeError, PravegaError) as error:
        raise InvalidOptionError(f"{path}/{_FILE} is damaged, or of a newer release: {error}") from None


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
        column("conflict", StringType(), "who has written to the table since"),
        column("rows_since", LongType(), "that transactions have written since, and the table keeps", nullable=False),
    ),
    _RIGHTS,
)
def restore_savepoint(call: Call) -> Acting[None]:
    path = call.find_directory("savepoint")
    [text] = yield from ask(call, DriverStep("read", f"{path}/{_FILE}"))
    if not text:
        raise InvalidOptionError(f"'savepoint' => '{path}' is no savepoint, because it has no {_FILE}. Name another.")
    saved = _parse(path, text)
    origin = call.catalog.named(*split_name(saved.into)[-2:])
    call = replace(call, arguments={"checkpoint": saved.checkpoint, "into": saved.into, **call.arguments})
    checkpoint, stream = call.find_directory("checkpoint"), call.find_stream("into")
    if (on_conflict := call.arguments.get("on_conflict", _REWIND).lower()) != _REWIND:
        raise InvalidOptionError(f"'on_conflict' => '{on_conflict}' is not valid. Give '{_REWIND}', or leave it out.")
    reads = (DriverStep("read", f"{checkpoint}/{file}") for file in ("metadata", f"../{_FILE}"))
    names, about, others = yield from ask(call, DriverStep("list", checkpoint), *reads)
    if names and (others or _read_id(checkpoint, about) != saved.query):
        raise InvalidOptionError(
            f"'checkpoint' => '{checkpoint}' is that of {'a savepoint' if others else 'another query'}. Name the "
            f"checkpoint of query {saved.query} or a new directory, or rename this one first."
        )
    _check_not_kept_running(call, saved.query)
    log, writer = CommitLog(call.catalog.pravega, stream), name_writer_of_query(saved.query)
    ledger = _read_queries(log)
    conflict, rows_since = _find_conflict(call, saved, ledger)
    if conflict is not None and "on_conflict" not in call.arguments:
        raise QueryFencedError(
            f"Stream {stream} was written to since the savepoint {path} by {conflict}. The query would write once more "
            "what it has read since. Let it go on in another table, 'into' => '<table>', which begins with SELECT * "
            f"FROM {origin} VERSION AS OF '{saved.stream_cut}'; or take rows twice: on_conflict => '{_REWIND}'."
        )
    log.make_ready()
    row = ledger.get(writer, LedgerRow(writer, log.learn_origin()))
    reset = partial(reset_query, call.catalog.pravega, stream, log, row, saved.rows().get(writer))
    moment = read_clock()
    new, old = f"{checkpoint}.new-{moment}", f"{checkpoint}.until-{moment}"
    _, content = yield from ask(call, DriverStep("claim", saved.query), DriverStep("copy", f"{path}/checkpoint", new))
    has, had = ([int(number) for number in re.findall(r"\d+", each)] for each in (content, saved.content))
    if any(now < then for now, then in zip(has, had, strict=False)):  # elsewhere it may have checksums too
        raise InvalidOptionError(
            f"The savepoint {path} is not whole: its checkpoint has {content}, and had {saved.content}. Name one that "
            f"has all files; {new} can be deleted."
        )
    if writer not in ledger:
        reset()  # first: no row would stop a run that begins after the move
    if names:
        yield from ask(call, DriverStep("move", checkpoint, old))
    try:
        yield from ask(call, DriverStep("move", new, checkpoint))
    except InvalidOptionError:
        if names:
            yield from ask(call, DriverStep("move", old, checkpoint))
        raise
    if writer in ledger:
        reset()  # last: until then a run from the savepoint is fenced
    replaced = old if names else (yield from _find_moved(call, checkpoint))
    yield saved.query, saved.batch, checkpoint, replaced, conflict, rows_since


def _find_moved(call: Call, checkpoint: str) -> Acting[str | None]:
    """Return where a checkpoint is since a driver died between the two moves of a call; None if none did."""
    parent, _, name = checkpoint.rpartition("/")
    [names] = yield from ask(call, DriverStep("list", parent or "/"))
    moved = re.findall(rf"^{re.escape(name)}\.until-(\d+)$", names, re.MULTILINE)
    cut_off = [moment for moment in moved if f"{name}.new-{moment}" in names.splitlines()]
    return f"{checkpoint}.until-{max(cut_off)}" if cut_off else None


def _find_conflict(call: Call, saved: Savepoint, ledger: Mapping[str, LedgerRow]) -> tuple[str | None, int]:
    """Return who has written to the table since a savepoint, and how many rows it got. Raises InvalidOptionError."""
    states = {writer: row.state for writer, row in saved.rows().items()}
    writers = [
        f"{row.writer} (up to micro-batch {row.epoch})"
        for row in ledger.values()
        if row.epoch >= 0 and row.state != states.get(row.writer)  # negative: reset
    ]
    start, (log, end, _, committed_bytes), rows_since = StreamCut.from_text(saved.stream_cut), _measure_end(call), 0
    if end.stream == start.stream:
        if not is_same_stream(saved.identity, identify(call.catalog.pravega, end.stream) or ""):
            raise InvalidOptionError(
                f"Stream {end.stream} was dropped and created again since the savepoint of query {saved.query}, and "
                "lacks its rows. Name another table by 'into', or start the query with a new checkpoint."
            )
        slices = measure_segments(call.catalog.pravega, end.stream, end, start=start)
        if sum(each.end - each.start for each in slices) not in (0, committed_bytes - saved.committed_bytes):
            writers.append("a writer that leaves no trace in the ledger, perhaps the query without transactions")
        rows_since = sum(version.rows for version in log.versions(saved.version + 1))
    return " and ".join(writers) or None, rows_since
