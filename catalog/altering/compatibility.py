"""Checks new columns of JSON events by a policy, as the schema registry does for Avro; it accepts any JSON schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pyspark_pravega.client.registry.types import Compatibility
from pyspark_pravega.errors import IncompatibleSchemaError
from pyspark_pravega.formats.core.defaults import is_read_as_default
from pyspark_pravega.formats.core.edited_columns import ELEMENT, VALUE
from pyspark_pravega.formats.core.spark_visitor import join_path

from .column_changes import is_wider

CHANGE_POLICY = "ALTER TABLE ... SET TBLPROPERTIES ('compatibility'='...') changes the policy"
"""What to do about a policy that does not allow a change."""

_BACKWARD = ("Backward", "BackwardTransitive", "Full", "FullTransitive")
_FORWARD = ("Forward", "ForwardTransitive", "Full", "FullTransitive")


def check_compatible(policy: Compatibility, versions: Sequence[StructType], new: StructType) -> None:
    """Raise IncompatibleSchemaError if a policy does not allow these columns after those of the earlier versions.

    A policy that is not transitive considers only the last version.
    """
    if policy.policy == "DenyAll":
        raise IncompatibleSchemaError("the policy 'deny-all' of its schema group allows no change of columns")
    judged = versions if policy.policy.endswith("Transitive") else versions[-1:]
    for old in judged:
        reasons: list[str] = []
        if policy.policy in _BACKWARD:
            reasons += _find_unreadable(old, new, "events that were written before")
        if policy.policy in _FORWARD:
            reasons += _find_unreadable(new, old, "programs that know the earlier columns")
        if reasons:
            raise IncompatibleSchemaError(
                f"the policy of its schema group does not allow the change: {'; '.join(reasons)}. {CHANGE_POLICY}"
            )


def _find_unreadable(written: DataType, read: DataType, who: str, path: str = "") -> Iterable[str]:
    """Yield why values of one type cannot be read as another; `path` is their column."""
    match written, read:
        case StructType(), StructType():
            yield from _find_unreadable_fields(written, read, who, path)
        case ArrayType(), ArrayType():
            yield from _find_unreadable_parts(
                (written.elementType, written.containsNull), (read.elementType, read.containsNull), who, path, ELEMENT
            )
        case MapType(), MapType():
            before, now = (written.valueType, written.valueContainsNull), (read.valueType, read.valueContainsNull)
            yield from _find_unreadable_parts(before, now, who, path, VALUE)
        case _ if not is_wider(written, read):
            types = f"{written.simpleString()} is not read as {read.simpleString()}"
            yield f"column {path}: {types} ({who})"


def _find_unreadable_fields(written: StructType, read: StructType, who: str, path: str) -> Iterable[str]:
    before = {field.name: field for field in written}
    for field in read:
        here, other = join_path(path, field.name), before.get(field.name)
        if other is not None:
            yield from _find_unreadable_parts(
                (other.dataType, other.nullable), (field.dataType, field.nullable), who, path, field.name
            )
        elif not field.nullable and not is_read_as_default(field):
            yield f"column {here} is NOT NULL for one side and missing for the other ({who})"


def _find_unreadable_parts(
    written: tuple[DataType, bool], read: tuple[DataType, bool], who: str, path: str, name: str
) -> Iterable[str]:
    """Yield why a part of a column cannot be read; each side is a type, and whether it may be null."""
    here, reasons = join_path(path, name), list(_find_unreadable(written[0], read[0], who, join_path(path, name)))
    yield from reasons
    if not reasons and written[1] and not read[1]:
        yield f"column {here} may be null for one side and is NOT NULL for the other ({who})"
