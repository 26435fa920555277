"""What the catalog keeps of a scope and Pravega has no place for: rows of a hidden key-value table in the scope.

The table is made when there is something to keep, and goes with its namespace. A key is the row's kind and a hash of
its name, so that the rows of a kind are next to each other. A value is a JSON object with the name; versions of this
package leave what they do not know in it as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.key_value.table import MAX_VALUE_BYTES, NOT_EXISTS
from pyspark_pravega.errors import ConditionalUpdateError, InvalidOptionError, KeyValueTableNotFoundError

TABLE_NAME = "pyspark-pravega-catalog"
_KIND_BYTES, _NAME_BYTES = 4, 16


class RowKind(IntEnum):
    """The kinds of rows. Numbers are never given to another kind."""

    NAMESPACE = 0
    """The namespace itself: one row, whose name is empty."""


class ScopeTable:
    """The rows of one scope."""

    def __init__(self, pravega: Pravega, scope: str) -> None:
        """Nothing is sent yet."""
        self._scope = scope
        self._table = pravega.key_value_table(scope, TABLE_NAME)

    def read(self, kind: RowKind, name: str) -> Mapping[str, Any] | None:
        """Return what is kept under a name; None if nothing is. Raises PermissionDeniedError without READ."""
        try:
            stored = self._table.get(_key(kind, name))
        except KeyValueTableNotFoundError:
            return None
        found: dict[str, Any] | None = None if stored is None else json.loads(stored.value)
        return found

    def change(self, kind: RowKind, name: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        """Replace what is kept under a name by what `change` makes of it, which may be called again.

        It gets an empty object if nothing is kept. Raises InvalidOptionError for more than a row can hold, and
        PermissionDeniedError without READ_UPDATE.
        """
        key = _key(kind, name)
        while True:
            try:
                stored, missing = self._table.get(key), False
            except KeyValueTableNotFoundError:
                stored, missing = None, True
            before: dict[str, Any] = {} if stored is None else json.loads(stored.value)
            after = change(before)
            if after == before:
                return
            value = json.dumps({**after, "name": name}).encode()
            if len(value) > MAX_VALUE_BYTES:
                raise InvalidOptionError(
                    f"{len(value):,} bytes are too much to be kept of scope {self._scope}; {MAX_VALUE_BYTES:,} are "
                    "possible. Shorten the values."
                )
            if missing:
                self._table.create(1, _KIND_BYTES + _NAME_BYTES)
            try:
                self._table.put(key, value, NOT_EXISTS if stored is None else stored.version)
                return
            except ConditionalUpdateError:
                continue


def _key(kind: RowKind, name: str) -> bytes:
    return kind.to_bytes(_KIND_BYTES, "big") + hashlib.blake2b(name.encode(), digest_size=_NAME_BYTES).digest()
