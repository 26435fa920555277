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
class CallProcedure:
    """CALL: the rows of its result, as `MetadataRows`. `given` are the arguments that are not null, as texts."""

    namespace: tuple[str, ...]
    name: str
    given: Mapping[str, str]


ProcedureRequest: TypeAlias = ListProcedures | LoadProcedure | CallProcedure
"""Requests about procedures."""
