"""What the catalog keeps about a scope but Pravega has no place for: rows of a hidden key-value table in the scope.

The table is made when there is something to keep, and goes with its namespace. A key is the row's kind and a hash of
its name, so the rows of a kind are next to each other. A value is a JSON object with the name; each version of this
package leaves the fields that it does not know as they are.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import Any, TypeAlias

from tenacity import retry, retry_if_exception_type

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.key_value.key_value_table import MAX_VALUE_BYTES, NOT_EXISTS, Entry

from .reporting import warn_once

LOG = logging.getLogger(__name__)
TABLE_NAME = "pyspark-pravega-catalog"
_KIND_BYTES, _NAME_BYTES = 4, 16
_NOTHING = b""
"""The value of a row that was renamed and is about to be removed."""
Row: TypeAlias = Mapping[str, Any]


class RowKind(IntEnum):
    """The kinds of rows. A number is never reused for another kind."""

    NAMESPACE = 0
    """The namespace itself: one row, whose name is empty."""
    VIEW = 1
    """A view, under its name in Pravega's spelling."""
    KEY_VALUE_TABLE = 2
    """The columns of a key-value table."""
    SEVERAL_STREAMS = 3
    """What names the streams of a table of several, under the table's name in Pravega's spelling."""
    QUERY = 4
    """A streaming query that CALL start_query keeps running, under its own name, or a table that servers tier."""


_AGAIN_IF_CHANGED = retry(retry=retry_if_exception_type(errors.ConditionalUpdateError))
"""Does at once again what failed because somebody else has changed the row."""


class ScopeTable:
    """The rows of one scope."""

    def __init__(self, pravega: Pravega, scope: str) -> None:
        """Send nothing yet."""
        self._scope = scope
        self._table = pravega.key_value_table(scope, TABLE_NAME)

    def read(self, kind: RowKind, name: str) -> Mapping[str, Any] | None:
        """Return the row of a name, or None.

        Raises PermissionDeniedError without READ, UnsupportedOperationError for what is not a JSON object with a name.
        """
        key = _make_key(kind, name)
        try:
            return self._read_row(key, self._table.get(key))
        except errors.KeyValueTableNotFoundError:
            return None

    def read_if_allowed(self, kind: RowKind, name: str) -> Mapping[str, Any] | None:
        """Return the row of a name, or None: also to a user without READ. Raises UnsupportedOperationError."""
        try:
            return self.read(kind, name)
        except errors.PermissionDeniedError as error:
            LOG.debug("What scope %s keeps of the %s '%s' is left out: %s", self._scope, kind.name, name, error)
            return None

    def rows(self, kind: RowKind) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of a kind, unordered, each with its `name`. Leaves out what is not such a row, with a warning.

        Raises PermissionDeniedError without READ.
        """
        first = kind.to_bytes(_KIND_BYTES, "big")
        try:
            for key, stored in self._table.entries(first + bytes(_NAME_BYTES), first + b"\xff" * _NAME_BYTES):
                try:
                    row = self._read_row(key, stored)
                except errors.UnsupportedOperationError as error:
                    warn_once(error.message)
                    continue
                if row is not None:
                    yield row
        except errors.KeyValueTableNotFoundError:
            return

    @_AGAIN_IF_CHANGED
    def remove(
        self, kind: RowKind, name: str, condition: Callable[[Mapping[str, Any]], bool] = lambda kept: True
    ) -> bool:
        """Remove the row of a name, if it fulfils a condition; return False if there is no such row.

        Raises PermissionDeniedError without READ_UPDATE.
        """
        key = _make_key(kind, name)
        try:
            stored = self._table.get(key)
            row = self._read_row(key, stored)
            if stored is None or row is None or not condition(row):
                return False
            self._table.delete(key, stored.version)
            return True
        except errors.KeyValueTableNotFoundError:
            return False

    @_AGAIN_IF_CHANGED
    def change(self, kind: RowKind, name: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        """Replace the row of a name by what `change` makes of it; `change` may be called several times.

        It gets an empty object if nothing is kept. Raises InvalidOptionError if a row cannot hold the result, and
        PermissionDeniedError without READ_UPDATE.
        """
        key = _make_key(kind, name)
        try:
            stored, missing = self._table.get(key), False
        except errors.KeyValueTableNotFoundError:
            stored, missing = None, True
        before = self._read_row(key, stored) or {}
        after = change(before)
        if after == before:
            return
        value = self._value(after, name)
        if missing:
            self._table.create(1, _KIND_BYTES + _NAME_BYTES)
        self._table.put(key, value, _get_version(stored))

    @_AGAIN_IF_CHANGED
    def rename(self, kind: RowKind, name: str, new_name: str, check: Callable[[Row | None, Row | None], Row]) -> None:
        """Move the row of a name to another name, in one step.

        `check` gets what is kept under the two names, and returns the first or raises; it may be called several times.
        Raises the errors of `change`.
        """
        keys = [_make_key(kind, name), _make_key(kind, new_name)]
        try:
            old, new = self._table.get_many(keys)
        except errors.KeyValueTableNotFoundError:
            old = new = None
        rows = self._read_row(keys[0], old), self._read_row(keys[1], new)
        value = self._value(check(*rows), new_name)
        # One write puts several values, but removes none.
        gone, _ = self._table.put_many([(keys[0], _NOTHING, _get_version(old)), (keys[1], value, _get_version(new))])
        with suppress(errors.PravegaError):
            self._table.delete(keys[0], gone)

    def _read_row(self, key: bytes, stored: Entry | None) -> dict[str, Any] | None:
        if stored is None or stored.value == _NOTHING:
            return None
        with suppress(ValueError):
            row = json.loads(stored.value)
            if isinstance(row, dict) and isinstance(row.get("name"), str):
                return row
        raise errors.UnsupportedOperationError(
            f"Scope {self._scope}: what the catalog keeps in the key-value table {TABLE_NAME} under the key "
            f"{key.hex()} is not a JSON object with a name, so another program has written it. Restore it, or "
            "remove this entry."
        )

    def _value(self, row: Row, name: str) -> bytes:
        value = json.dumps({**row, "name": name}).encode()
        if len(value) > MAX_VALUE_BYTES:
            raise errors.InvalidOptionError(
                f"The catalog cannot keep {len(value):,} bytes in one row about scope {self._scope}; the limit is "
                f"{MAX_VALUE_BYTES:,}. Shorten the values."
            )
        return value


def _get_version(stored: Entry | None) -> int:
    return NOT_EXISTS if stored is None else stored.version


def _make_key(kind: RowKind, name: str) -> bytes:
    return kind.to_bytes(_KIND_BYTES, "big") + hashlib.blake2b(name.encode(), digest_size=_NAME_BYTES).digest()
