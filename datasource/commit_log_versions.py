"""The versions of a stream in the commit log: reading them by number and by time."""

from __future__ import annotations

import json
import uuid

from pyspark_pravega.errors import KeyValueTableNotFoundError

from .commit_log_rows import Head, Version, read_version
from .commit_log_table import LogTable


class VersionTable(LogTable):
    """The versions of one stream. An object of it is used by one thread at a time."""

    def versions(self, first: int = 1, last: int | None = None) -> list[Version]:
        """Return the versions from `first` to `last` (None: the newest), ascending; none when nothing was logged.

        The first version is 1. Rows of an older stream of this name do not count, if this user may ask for what
        tells it from this one.
        Raises PermissionDeniedError for a user who may not read the log.
        """
        head = self._valid_head()
        return [] if head is None else self._versions(head, first, head.version if last is None else last)

    def newest(self) -> int:
        """Return the number of the newest version, 0 when nothing was logged; raises what `versions` does."""
        head = self._valid_head()
        return 0 if head is None else head.version

    def oldest(self) -> Version | None:
        """Return the oldest version in the log, None when there is none; raises what `versions` does."""
        found = self.versions(1, 1)
        return found[0] if found else None

    def newest_by(self, timestamp: int) -> Version | None:
        """Return the newest version published at a time (microseconds since 1970) or before, None if there is none.

        Versions are published in their order, so a few of them are looked at. Raises what `versions` does.
        """
        head = self._valid_head()
        low, high, found = 1, 0 if head is None else head.version, None
        while head is not None and low <= high:
            middle = (low + high) // 2
            here = self._versions(head, middle, middle)
            if not here or here[0].timestamp <= timestamp:
                low, found = middle + 1, here[0] if here else found
            else:
                high = middle - 1
        return found

    def has_version_of(self, transaction: uuid.UUID) -> bool:
        """Tell whether there is a version of a transaction. All versions are looked at: the server must not know it."""
        return any(each.transaction == transaction for each in self.versions())

    def _valid_head(self) -> Head | None:
        try:
            head = self._head()
        except KeyValueTableNotFoundError:
            return None
        return head if head.origin is not None and self._is_of_this_stream(head) else None

    def _versions(self, head: Head, first: int, last: int) -> list[Version]:
        first, last = max(first, 1), min(last, head.version)
        if last < first:
            return []
        rows = [json.loads(entry.value) for _, entry in self._table.entries(self._key(first), self._key(last))]
        return sorted(map(read_version, rows), key=lambda each: each.number)
