"""Defines a procedure: its parameters, the columns of its result, the rights that it needs, and its function."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import pyspark.sql.types as T

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.scan.planned_scan import RowSource
from pyspark_pravega.datasource.tables.stream_table import TableName
from pyspark_pravega.errors import InvalidNameError, InvalidOptionError, UnsupportedOperationError
from pyspark_pravega.sql.identifiers import split_name
from pyspark_pravega.sql.options import USER_LOGINS
from pyspark_pravega.sql.refusals import describe_key_value_refusal

from ..metadata.metadata_table import Rows
from ..name_resolution import find_in_scope
from ..protocol import QueryFacts
from ..protocol.procedure_requests import TasksDone
from ..protocol.service_replies import DriverStep, Parameter
from ..protocol.table_requests import Identifier
from ..running.tending import QueryServers
from ..storage.catalogs import Catalog

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_TAKEN: Mapping[type[T.DataType], tuple[type[T.DataType], ...]] = {
    T.StringType: (T.StringType, T.CharType, T.VarcharType, *_WHOLE),
    T.BooleanType: (T.BooleanType,),
    T.IntegerType: _WHOLE,
    T.LongType: _WHOLE,
    T.MapType: (T.MapType,),
}
"""The types of values that a parameter takes, besides NULL."""

_PASSWORD = re.compile(r"://[^@]*:[^@]*@")
_PATH = re.compile(r"/|[A-Za-z][\w+.-]*:/")


def parameter(name: str, comment: str, type: T.DataType | None = None, *, optional: bool = False) -> Parameter:
    """Return a parameter, by default a text."""
    return Parameter(name, type or T.StringType(), comment, optional)


def flag(name: str, comment: str) -> Parameter:
    """Return a parameter that is true or false, by default false."""
    return parameter(name, comment, T.BooleanType(), optional=True)


TABLE = parameter("table", "the table as '<namespace>.<table>', with backticks as in SQL")
DRY_RUN = flag("dry_run", "whether to change nothing, and only show what would change")


@dataclass(frozen=True)
class Call:
    """A call of a procedure: the texts of the arguments that are not null, by the names of parameters.

    `facts` are there if the procedure starts a query, which one of the `servers` then runs. `done` are the results of
    the tasks that the first answer asked for.
    """

    catalog: Catalog
    arguments: Mapping[str, str]
    servers: QueryServers
    facts: QueryFacts | None = None
    done: TasksDone | None = None

    def is_set(self, flag: Parameter) -> bool:
        return self.arguments.get(flag.name) == "true"

    def require(self, name: str) -> str:
        """Return an argument. Raises InvalidOptionError if it is null."""
        if name not in self.arguments:
            raise InvalidOptionError(f"The argument '{name}' is NULL. Give it a value.")
        return self.arguments[name]

    def find_stream(self, name: str = TABLE.name) -> Stream:
        """Return the stream of the argument that names a table.

        Raises InvalidNameError if the text cannot name a table of the catalog, UnsupportedOperationError for key-value
        tables and views, StreamNotFoundError if there is no such table.
        """
        return find_in_scope(self.catalog, self.name_table(name)).find_stream("CALL")

    def find_directory(self, name: str) -> str:
        """Return the directory in an argument. Raises InvalidOptionError unless every server means the same by it."""
        path = self.require(name)
        if not _PATH.match(path):
            raise InvalidOptionError(
                f"'{name}' => '{path}' is not an absolute path, and would mean a different directory on each server. "
                "Begin it with / or with a scheme such as s3a://."
            )
        if _PASSWORD.search(path):
            raise InvalidOptionError(
                f"'{name}' has a password in its address, which would be shown. Give Spark the login by its confs."
            )
        return path.rstrip("/")

    def name_table(self, name: str) -> Identifier:
        """Return the name in the argument that names a table. Raises InvalidNameError."""
        text, catalog = self.require(name), self.catalog
        parts = split_name(text)
        if len(parts) == 3 and parts[0] == catalog.name:
            parts = parts[1:]
        if len(parts) != 2:
            raise InvalidNameError(
                f"'{text}' does not name a table. Write '<namespace>.<table>', with backticks around a part that has "
                "other characters than letters, digits and '_'."
            )
        table = TableName.parse(parts[1])
        if table.is_key_value_table:
            raise UnsupportedOperationError(describe_key_value_refusal("CALL", catalog.named(*parts)))
        if table.part is not None:
            whole = catalog.named(parts[0], table.stream)
            raise InvalidNameError(f"'{text}' is a part of a stream. Name the whole: '{whole}'.")
        return Identifier(parts[:1], parts[1])


@dataclass
class DriverWork:
    """Steps that the driver takes before the procedure that yields them goes on, with an answer to each by then."""

    steps: tuple[DriverStep, ...]
    answers: tuple[str, ...] = ()
    error: str | None = None


Answer = TypeVar("Answer")
Acting: TypeAlias = Generator[Sequence[Any] | DriverWork, None, Answer]
"""The rows of a result, and before them what the driver is to do."""


def ask(call: Call, *steps: DriverStep) -> Acting[tuple[str, ...]]:
    """Have the driver take steps, and return its answers. Raises InvalidOptionError, UnsupportedOperationError."""
    if call.catalog.user is not None:  # the driver's own rights would count for files
        raise UnsupportedOperationError(f"Savepoints are refused with '{USER_LOGINS.key}'. Use a driver of your own.")
    work, release = DriverWork(steps), call.catalog.hold()
    try:
        yield work
    finally:
        release()
    if work.error is not None:
        raise InvalidOptionError(work.error)
    return work.answers


@dataclass(frozen=True)
class Tasks:
    """Work of a call that tasks do first: the call is then repeated with what is `pending` and their results."""

    source: RowSource
    pending: str


@dataclass(frozen=True)
class Procedure:
    """A procedure. `act` carries out a call; `rights` describes the rights on the servers that its user needs."""

    name: str
    comment: str
    parameters: tuple[Parameter, ...]
    columns: T.StructType
    rights: str
    act: Callable[[Call], Rows | Acting[None]]
    plan: Callable[[Call], Tasks | None] | None = None
    """Plans what tasks do before `act` is called with their results."""

    @property
    def signature(self) -> str:
        """Return a sentence that lists the arguments."""
        listed = ", ".join(
            f"{parameter.name} {parameter.type.simpleString().upper()}{' (optional)' if parameter.optional else ''}"
            for parameter in self.parameters
        )
        return f"Its arguments are {listed}."


def procedure(
    comment: str,
    parameters: Sequence[Parameter],
    columns: Sequence[T.StructField],
    rights: str,
    plan: Callable[[Call], Tasks | None] | None = None,
) -> Callable[[Callable[[Call], Rows | Acting[None]]], Procedure]:
    """Make a procedure, under its own name, of the function that carries out a call."""

    def make(act: Callable[[Call], Rows | Acting[None]]) -> Procedure:
        return Procedure(act.__name__, comment, tuple(parameters), T.StructType(list(columns)), rights, act, plan)

    return make


def check_arguments(procedure: Procedure, shown: str, arguments: T.StructType) -> None:
    """Check the arguments of a CALL, as Spark describes them: the metadata of a field marks a named one.

    Raises InvalidOptionError for an unknown or missing argument, and for one of another type.
    """
    parameters = {parameter.name: parameter for parameter in procedure.parameters}
    names: set[str] = set()
    for number, field in enumerate(arguments):
        if field.metadata.get("BY_NAME"):
            name = next((parameter for parameter in parameters if parameter.lower() == field.name.lower()), None)
        else:
            name = list(parameters)[number] if number < len(parameters) else None
        if name is None:
            what = f"argument '{field.name}'" if field.metadata.get("BY_NAME") else f"argument number {number + 1}"
            raise InvalidOptionError(f"{shown} has no {what}. {procedure.signature}")
        expected, type = parameters[name].type, field.dataType
        if not isinstance(type, (T.NullType, *_TAKEN[expected.__class__])):
            raise InvalidOptionError(
                f"The argument '{name}' of {shown} has the type {type.simpleString().upper()}, but takes "
                f"{expected.simpleString().upper()}. {procedure.signature}"
            )
        names.add(name)
    missing = [name for name, parameter in parameters.items() if not parameter.optional and name not in names]
    if missing:
        raise InvalidOptionError(f"{shown} needs the argument '{missing[0]}'. {procedure.signature}")
