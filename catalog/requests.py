"""The requests of the Java adapter to the catalog service.

One class for each; its name in snake case is that of the operation in Java. The replies are those of `replies`, or the
plain value that the description names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_args

from pyspark.sql.types import StructType

from pyspark_pravega.datasource.stream_source.limits import Limits
from pyspark_pravega.datasource.tables.change_range import ChangeRange
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import ProtocolError

from .messages import decode
from .replies import InsertHandle, ScanEnds


@dataclass(frozen=True)
class DefaultNamespace:
    """The namespace that `USE <catalog>` selects, as a list of its parts."""


@dataclass(frozen=True)
class ListNamespaces:
    """The names of all namespaces."""


@dataclass(frozen=True)
class LoadNamespace:
    """The properties of a namespace."""

    namespace: tuple[str, ...]


@dataclass(frozen=True)
class CreateNamespace:
    """CREATE NAMESPACE."""

    namespace: tuple[str, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True)
class AlterNamespace:
    """ALTER NAMESPACE, which is refused."""

    namespace: tuple[str, ...]


@dataclass(frozen=True)
class DropNamespace:
    """DROP NAMESPACE: whether there was one."""

    namespace: tuple[str, ...]
    cascade: bool


@dataclass(frozen=True)
class ListTables:
    """The names of the tables of a namespace."""

    namespace: tuple[str, ...]


@dataclass(frozen=True)
class LoadTable:
    """A `TableDescription`, for a query with those of its options that change columns."""

    namespace: tuple[str, ...]
    name: str
    options: Mapping[str, str]
    writing: bool


@dataclass(frozen=True)
class LoadSource:
    """The `SourceDescription` of what `format("pravega")` with these options reads or writes.

    It comes with the conf of the catalog that counts, if one does, and the names of the session's `catalogs`. `schema`
    is that of the rows to write, or the one that the user gave for reading.
    """

    options: Mapping[str, str] = field(repr=False)
    schema: StructType | None
    writing: bool
    catalogs: tuple[str, ...]


@dataclass(frozen=True)
class LoadChangelog:
    """The `TableDescription` of the changes of a table in a range."""

    namespace: tuple[str, ...]
    name: str
    options: Mapping[str, str]
    range: ChangeRange


@dataclass(frozen=True)
class TableExists:
    """Whether there is a table; `creating`: whether CREATE TABLE must fail because of it."""

    namespace: tuple[str, ...]
    name: str
    creating: bool


@dataclass(frozen=True)
class Constraint:
    """A constraint of CREATE TABLE: the name of Spark's class, its SQL, the columns of a primary key."""

    kind: str
    text: str
    enforced: bool
    columns: tuple[str, ...]


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE: the new table's `TableDescription`. `adopt`: a stream without a schema may become the table."""

    namespace: tuple[str, ...]
    name: str
    schema: StructType
    partitions: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    properties: Mapping[str, str]
    adopt: bool


@dataclass(frozen=True)
class SettleTable:
    """The `TableDescription` of a table that toTable has made, with the properties that the query's options name."""

    table: StreamTable
    schema: StructType
    options: Mapping[str, str]


@dataclass(frozen=True)
class TableChange:
    """A change of ALTER TABLE: the name of Spark's class; of a property, its key and its value (None: unset)."""

    kind: str
    property: str | None
    value: str | None


@dataclass(frozen=True)
class AlterTable:
    """ALTER TABLE: the `TableDescription` after all the changes."""

    namespace: tuple[str, ...]
    name: str
    changes: tuple[TableChange, ...]


@dataclass(frozen=True)
class DropTable:
    """DROP TABLE: whether there was one."""

    namespace: tuple[str, ...]
    name: str


@dataclass(frozen=True)
class Refuse:
    """The error for a statement that streams cannot do."""

    namespace: tuple[str, ...]
    name: str
    statement: str


@dataclass(frozen=True)
class PlanScan:
    """A `PlannedRead` of a table that was loaded. `limit` is negative where there is none.

    `ends` come from the former plans of the same query, so that all its scans of a table end at one tail. `found` is
    None until the scan is run, then what the tasks of a `search` found, each in a text.
    """

    table: StreamTable
    columns: StructType
    options: Mapping[str, str]
    limit: int
    ends: ScanEnds | None
    found: tuple[str, ...] | None = None


@dataclass(frozen=True)
class PlanChanges:
    """A `PlannedRead` of the changes of a table; fields as those of `PlanScan`."""

    table: StreamTable
    columns: StructType
    options: Mapping[str, str]
    limit: int
    ends: ScanEnds | None
    found: tuple[str, ...] | None = None


@dataclass(frozen=True)
class StartOfChanges:
    """The position (a text) at which a stream of changes begins that has no checkpoint."""

    table: StreamTable
    options: Mapping[str, str]


@dataclass(frozen=True)
class EndOfChanges:
    """The position at which the next batch of a stream of changes ends: by `limits`, if there are any.

    It does not go beyond `last`, the position where a query ends that reads what was available at its start.
    """

    table: StreamTable
    options: Mapping[str, str]
    since: str
    last: str | None
    limits: Limits | None
    checkpoint: str


@dataclass(frozen=True)
class LimitsOfChanges:
    """The `Limits` that the options of a query give the batches of its stream of changes."""

    table: StreamTable
    options: Mapping[str, str]


@dataclass(frozen=True)
class PlanNewChanges:
    """A `PlannedRead` of the changes between two positions, for the micro-batch stream of a checkpoint location.

    `known` is what `PlannedRows` said of the position `since`, `files` are those of the checkpoint, and `retain` is the
    number of batches that Spark keeps.
    """

    table: StreamTable
    columns: StructType
    options: Mapping[str, str]
    since: str
    until: str
    checkpoint: str
    known: str | None
    files: tuple[str, ...]
    retain: int
    found: tuple[str, ...] | None = None


@dataclass(frozen=True)
class _OfQuery:
    """A request of a streaming query: its table, the `id` of that table's description, the columns that it needs."""

    table: StreamTable
    id: str | None
    columns: StructType
    options: Mapping[str, str]


@dataclass(frozen=True)
class StartOfStream(_OfQuery):
    """The offset (a text) at which a streaming query begins that has no checkpoint."""


@dataclass(frozen=True)
class LastOfStream(_OfQuery):
    """The offset at which the table ends now, where a query ends that reads what is available now."""


@dataclass(frozen=True)
class LimitsOfStream(_OfQuery):
    """The `Limits` that the options of a query give its micro-batches."""


@dataclass(frozen=True)
class EndOfMicroBatch(_OfQuery):
    """A `MicroBatchEnd`, that of the next micro-batch.

    `last`: not beyond this offset. `checkpoint` tells the query from others.
    """

    since: str
    last: str | None
    limits: Limits
    checkpoint: str


@dataclass(frozen=True)
class PlanMicroBatch(_OfQuery):
    """A `PlannedRead` of what lies between two offsets. `checkpoint` tells the query from others."""

    since: str
    until: str
    checkpoint: str


@dataclass(frozen=True)
class PlanRealTime(_OfQuery):
    """A `PlannedRead` of all that comes after an offset, of one partition per segment, whose id is its affinity."""

    since: str
    checkpoint: str


@dataclass(frozen=True)
class EndOfRealTime(_OfQuery):
    """The offset that the tasks of a real-time batch have reached: an offset for each segment id."""

    reached: Mapping[str, str]


@dataclass(frozen=True)
class CommitMicroBatch(_OfQuery):
    """The query with this checkpoint has finished a micro-batch, and needs nothing before this offset any more."""

    until: str
    checkpoint: str


@dataclass(frozen=True)
class StopStream(_OfQuery):
    """The query with this checkpoint has stopped."""

    checkpoint: str


@dataclass(frozen=True)
class BeginInsert:
    """An `InsertBegun`: rows of a schema will come from some tasks."""

    table: StreamTable
    schema: StructType
    tasks: int
    options: Mapping[str, str]


@dataclass(frozen=True)
class CommitInsert:
    """Commit; the number of rows. `messages` are the tasks' pickled ones in base64.

    `again`: a service that ended may have done it already.
    """

    table: StreamTable
    insert: InsertHandle
    messages: tuple[str, ...]
    again: bool


@dataclass(frozen=True)
class AbortInsert:
    """Abort; nothing happens when the INSERT has ended."""

    table: StreamTable
    insert: InsertHandle


@dataclass(frozen=True)
class BeginEpoch:
    """An `InsertBegun` for one micro-batch of a streaming query, which has an id and, since it was started, a run's."""

    table: StreamTable
    schema: StructType
    tasks: int
    options: Mapping[str, str]
    query: str
    run: str


@dataclass(frozen=True)
class CommitEpoch:
    """Commit a micro-batch once; the number of rows. `offsets` is the text of what it read, from the query's own log.

    The others as in `CommitInsert`.
    """

    table: StreamTable
    insert: InsertHandle
    messages: tuple[str, ...]
    again: bool
    query: str
    run: str
    epoch: int
    offsets: str


StreamRequest: TypeAlias = (
    StartOfStream
    | LastOfStream
    | LimitsOfStream
    | EndOfMicroBatch
    | PlanMicroBatch
    | PlanRealTime
    | EndOfRealTime
    | CommitMicroBatch
)
"""Requests of a streaming query about the table that it reads."""

CatalogRequest: TypeAlias = (
    DefaultNamespace
    | ListNamespaces
    | LoadNamespace
    | CreateNamespace
    | AlterNamespace
    | DropNamespace
    | ListTables
    | LoadTable
    | LoadChangelog
    | TableExists
    | CreateTable
    | SettleTable
    | AlterTable
    | DropTable
    | Refuse
    | PlanScan
    | PlanChanges
    | StartOfChanges
    | EndOfChanges
    | LimitsOfChanges
    | PlanNewChanges
    | StreamRequest
    | StopStream
    | BeginInsert
    | CommitInsert
    | AbortInsert
    | BeginEpoch
    | CommitEpoch
)
"""Requests about one configured catalog."""

Request: TypeAlias = CatalogRequest | LoadSource


def operation(kind: type) -> str:
    """Return the name of a request's class as Java spells it."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


OPERATIONS: Mapping[str, type[Request]] = {operation(kind): kind for kind in get_args(Request)}


@dataclass(frozen=True)
class Envelope:
    """A request with the conf of the catalog that it is about."""

    conf: Mapping[str, str]
    request: Request


def read_request(value: Mapping[str, Any]) -> Envelope:
    """Read the JSON object `{"operation", "conf", "arguments"}`; raises what `decode` does."""
    conf: Sequence[tuple[str, str]] = value["conf"]
    name = value["operation"]
    kind = OPERATIONS.get(name)
    if kind is None:
        raise ProtocolError(f"The service knows no operation '{name}': is the adapter's jar of another version?")
    return Envelope(dict(conf), decode(kind, value["arguments"]))
