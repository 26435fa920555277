"""Requests about procedures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql.types import StructType


@dataclass(frozen=True)
class ListProcedures:
    """The names of the procedures of a namespace."""

    namespace: tuple[str, ...]


@dataclass(frozen=True)
class LoadProcedure:
    """The `ProcedureDescription` of a procedure.

    `given` are the arguments of a CALL, as Spark describes them before it calls: those that do not fit are refused.
    """

    namespace: tuple[str, ...]
    name: str
    given: StructType | None


@dataclass(frozen=True)
class QueryFacts:
    """What Spark knows about the query that a CALL starts.

    `server` is the driver that would run it, `spark` its version. `own_conf`: the session has a conf of the catalog
    that the server's other sessions do not have. `settings`, `catalog` and `namespace` are those of the session.
    """

    server: str
    spark: str
    own_conf: bool
    streaming: bool
    schema: StructType
    settings: Mapping[str, str]
    catalog: str
    namespace: tuple[str, ...]


@dataclass(frozen=True)
class CallProcedure:
    """CALL: the rows of its result, as `MetadataRows`. `given` are the arguments that are not null, as texts.

    `facts` are there if the procedure starts a query and its text is given.
    """

    namespace: tuple[str, ...]
    name: str
    given: Mapping[str, str]
    facts: QueryFacts | None = None


ProcedureRequest: TypeAlias = ListProcedures | LoadProcedure | CallProcedure
"""Requests about procedures."""
