"""Judges new columns of JSON events by a policy, as the schema registry does it for Avro: of JSON it takes anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql.types import StructType

from pyspark_pravega.client.registry.types import Compatibility
from pyspark_pravega.errors import IncompatibleSchemaError
from pyspark_pravega.formats.core.defaults import is_read_as_default

from .columns import is_wider

CHANGE_POLICY = "ALTER TABLE ... SET TBLPROPERTIES ('compatibility'='...') changes the policy"
"""What can be done about a policy that does not allow a change."""

_BACKWARD = ("Backward", "BackwardTransitive", "Full", "FullTransitive")
_FORWARD = ("Forward", "ForwardTransitive", "Full", "FullTransitive")


def check_compatible(policy: Compatibility, versions: Sequence[StructType], new: StructType) -> None:
    """Raise IncompatibleSchemaError if a policy does not allow columns to follow those of the versions before.

    A policy that is not transitive looks at the last version only.
    """
    if policy.policy == "DenyAll":
        raise IncompatibleSchemaError("the policy 'deny-all' of its schema group allows no other columns")
    judged = versions if policy.policy.endswith("Transitive") else versions[-1:]
    for old in judged:
        reasons: list[str] = []
        if policy.policy in _BACKWARD:
            reasons += _unreadable(old, new, "events that were written before")
        if policy.policy in _FORWARD:
            reasons += _unreadable(new, old, "programs that know the columns of before")
        if reasons:
            raise IncompatibleSchemaError(
                f"the policy of its schema group does not allow the change: {'; '.join(reasons)}. {CHANGE_POLICY}"
            )


def _unreadable(written: StructType, read: StructType, who: str) -> Iterable[str]:
    before = {field.name: field for field in written}
    for field in read:
        other = before.get(field.name)
        if other is None:
            if not field.nullable and not is_read_as_default(field):
                yield f"column {field.name} is NOT NULL for one side and not there for the other ({who})"
        elif not is_wider(other.dataType, field.dataType):
            types = f"{other.dataType.simpleString()} is not read as {field.dataType.simpleString()}"
            yield f"column {field.name}: {types} ({who})"
        elif other.nullable and not field.nullable:
            yield f"column {field.name} may be null for one side and is NOT NULL for the other ({who})"
