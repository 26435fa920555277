"""Requests about namespaces, tables and views, each by its name: to load, create, alter and drop them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as declared
from typing import TypeAlias

from pyspark.sql.types import StructType

from pyspark_pravega.datasource.tables.change_range import ChangeRange
from pyspark_pravega.datasource.tables.stream_table import StreamTable

from .service_replies import ViewDefinition


@dataclass(frozen=True)
class DefaultNamespace:
    """The namespace that `USE <catalog>` selects, as a list of its parts."""


@dataclass(frozen=True)
class ListNamespaces:
    """The names of all namespaces."""


@dataclass(frozen=True)
class OfNamespace:
    """A request about a namespace, or about what is in it."""

    namespace: tuple[str, ...]


class NamespaceExists(OfNamespace):
    """Whether there is a namespace."""


class LoadNamespace(OfNamespace):
    """The properties of a namespace."""


@dataclass(frozen=True)
class CreateNamespace(OfNamespace):
    """CREATE NAMESPACE."""

    properties: Mapping[str, str]


@dataclass(frozen=True)
class NamespaceChange:
    """A property of ALTER NAMESPACE and its value (None: unset)."""

    property: str
    value: str | None


@dataclass(frozen=True)
class AlterNamespace(OfNamespace):
    """ALTER NAMESPACE."""

    changes: tuple[NamespaceChange, ...]


@dataclass(frozen=True)
class DropNamespace(OfNamespace):
    """DROP NAMESPACE: whether there was one."""

    cascade: bool


NamespaceRequest: TypeAlias = (
    DefaultNamespace
    | ListNamespaces
    | NamespaceExists
    | LoadNamespace
    | CreateNamespace
    | AlterNamespace
    | DropNamespace
)
"""Requests about namespaces."""


@dataclass(frozen=True)
class Identifier:
    """The name of a table or a view as a statement gives it: in a namespace, which may be a stream with its scope.

    Requests about something by its name are such names, with what is asked of it.
    """

    namespace: tuple[str, ...]
    name: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the parts of the name, as SQL writes them with dots between them."""
        return *self.namespace, self.name


class ListTables(OfNamespace):
    """The names of the tables of a namespace."""


class ListRelations(OfNamespace):
    """The `Relations` of a namespace."""


@dataclass(frozen=True)
class TimeTravel:
    """What a table is asked for as of: a version, or a time (microseconds since 1970 as text), by `unit`."""

    unit: str
    text: str


@dataclass(frozen=True)
class LoadTable(Identifier):
    """A `TableDescription`, for a query with the `options` that change its columns, maybe `at` a position.

    `case_sensitive`: whether the session distinguishes names by their case. It is a `MetadataDescription` where the
    namespace is a stream and the name that of a metadata table, and with `or_view` a `ViewDefinition` if there is no
    table of this name.
    """

    options: Mapping[str, str]
    writing: bool
    at: TimeTravel | None = None
    or_view: bool = False
    case_sensitive: bool = True


@dataclass(frozen=True)
class DescribeLake:
    """What the lake of a table has, in a line."""

    table: StreamTable


@dataclass(frozen=True)
class ReadMetadata(Identifier):
    """The `MetadataRows` of a metadata table. `options` are those of the query."""

    options: Mapping[str, str]


@dataclass(frozen=True)
class LoadSource:
    """The `SourceDescription` of what `format("pravega")` with these options reads or writes.

    It comes with the conf of the catalog that counts, if one does, and the names of the session's `catalogs`. `schema`
    is that of the rows to write, or the one that the user gave for reading.
    """

    options: Mapping[str, str] = declared(repr=False)
    schema: StructType | None
    writing: bool
    catalogs: tuple[str, ...]


@dataclass(frozen=True)
class LoadChangelog(Identifier):
    """The `TableDescription` of the changes of a table in a range."""

    options: Mapping[str, str]
    range: ChangeRange


@dataclass(frozen=True)
class TableExists(Identifier):
    """Whether there is a table; `creating`: whether CREATE TABLE must fail because of it."""

    creating: bool


class HintOfTable(Identifier):
    """A hint at what a name was meant to be, for the end of Spark's error about a missing table: a str, or empty."""


@dataclass(frozen=True)
class Constraint:
    """A constraint of CREATE TABLE: the name of Spark's class, its SQL, the columns of a primary key."""

    kind: str
    text: str
    enforced: bool
    columns: tuple[str, ...]


@dataclass(frozen=True)
class CreateTable(Identifier):
    """CREATE TABLE: the new table's `TableDescription`. `adopt`: a stream without a schema may become the table.

    `defaults` are those of columns as they are now, as text; their SQL is in the metadata of the columns.
    """

    schema: StructType
    partitions: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    properties: Mapping[str, str]
    adopt: bool
    defaults: Mapping[str, str]

    @classmethod
    def of(
        cls, namespace: Sequence[str], name: str, schema: StructType, properties: Mapping[str, str], *, adopt: bool
    ) -> CreateTable:
        """Return the request for a table without partitions, constraints and defaults."""
        return cls(tuple(namespace), name, schema, (), (), properties, adopt, {})


@dataclass(frozen=True)
class UndoCreation:
    """Take back the table that CREATE TABLE AS SELECT has made, because the SELECT failed."""

    table: StreamTable
    id: str | None
    """As the `TableDescription` had it."""


@dataclass(frozen=True)
class SettleTable:
    """The `TableDescription` of a table that toTable has made, with the properties that the query's options name.

    `output_mode` is the query's, in lower case.
    """

    table: StreamTable
    schema: StructType
    options: Mapping[str, str]
    output_mode: str


@dataclass(frozen=True)
class TableChange:
    """A change of ALTER TABLE: the name of Spark's class; of a property, its key and its value (None: unset).

    For a column, the parts of its name; with `field`, its new form, as the only field of a struct; with `after`, the
    column that it follows ("": none, it becomes the first). `value` is a new name, a comment, or `true` for a column
    that may be null; of a new column with the property `default`, the default's SQL, and `initial` is what that is now,
    as text. Of a new default it is the SQL too, empty if there is to be none.
    """

    kind: str
    property: str | None
    value: str | None
    column: tuple[str, ...] = ()
    field: StructType | None = None
    after: str | None = None
    initial: str | None = None


@dataclass(frozen=True)
class AlterTable(Identifier):
    """ALTER TABLE: the `TableDescription` after all the changes."""

    changes: tuple[TableChange, ...]


class DropTable(Identifier):
    """DROP TABLE: whether there was one."""


@dataclass(frozen=True)
class TakesChange:
    """Whether INSERT may change a column of a table like this, where it may evolve the schema."""

    table: StreamTable
    change: TableChange


class LoadSegments(Identifier):
    """The `KeySpace` of a table."""


@dataclass(frozen=True)
class TruncateTable:
    """TRUNCATE TABLE, and DELETE without WHERE; no reply."""

    table: StreamTable


@dataclass(frozen=True)
class Refuse(Identifier):
    """The error for a statement that tables cannot do; `table` is the one that was loaded, if one was."""

    statement: str
    table: StreamTable | None = None


TableRequest: TypeAlias = (
    ListTables
    | ListRelations
    | LoadTable
    | ReadMetadata
    | LoadChangelog
    | TableExists
    | HintOfTable
    | CreateTable
    | UndoCreation
    | SettleTable
    | DescribeLake
    | AlterTable
    | DropTable
    | TakesChange
    | LoadSegments
    | TruncateTable
    | Refuse
)
"""Requests about tables."""


class ListViews(OfNamespace):
    """The names of the views of a namespace."""


@dataclass(frozen=True)
class PutView(Identifier):
    """CREATE VIEW and ALTER VIEW: whether a view of this name may be made, and whether one may be replaced.

    `streaming`: the query reads a STREAM. No reply.
    """

    view: ViewDefinition
    make: bool
    replace: bool
    streaming: bool


@dataclass(frozen=True)
class RenameView(Identifier):
    """ALTER VIEW ... RENAME TO another name, maybe in another namespace; no reply."""

    new_namespace: tuple[str, ...]
    new_name: str

    @property
    def new(self) -> Identifier:
        return Identifier(self.new_namespace, self.new_name)


class DropView(Identifier):
    """DROP VIEW: whether there was one."""


ViewRequest: TypeAlias = ListViews | PutView | RenameView | DropView
"""Requests about views."""
