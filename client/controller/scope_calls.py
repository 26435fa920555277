"""Controller calls for scopes and for the key-value tables in them."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import replace
from weakref import WeakValueDictionary

from pyspark_pravega import errors

from ..cancellation import sleep
from ..stream import KeyValueTableConfiguration
from . import controller_pb2 as pb
from .channel import ROOT_RESOURCE, ControllerCalls, describe_lost_reply, name_scope_resource, remind_of_nothing_else
from .failures import Purpose, Right
from .messages import decode_ranges

_FIRST_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 0.25, 2.0
"""Pauses before a look for a key-value table that another program creates: looking disturbs its creation."""
_creations: WeakValueDictionary[tuple[str, str, str], threading.Lock] = WeakValueDictionary()
"""The locks of those who create a key-value table in this process, by controller, scope and name."""


def make_scope_not_found_error(scope: str) -> errors.ScopeNotFoundError:
    return errors.ScopeNotFoundError(f"there is no scope '{scope}'")


class ScopeCalls(ControllerCalls):
    def list_scopes(self) -> list[str]:
        """Return the names of all scopes that the caller may read, sorted; internal ones begin with `_`.

        Raises PermissionDeniedError without the right READ on `prn::/`.
        """
        purpose = Purpose("list the scopes", ROOT_RESOURCE, "READ")
        request = pb.ScopesRequest(continuationToken=pb.ContinuationToken())
        return sorted(set(self._list_pages("listScopes", request, purpose, "scopes")))

    def scope_exists(self, scope: str) -> bool:
        """Return whether a scope exists. Needs READ on it."""
        purpose = Purpose(f"look for scope '{scope}'", name_scope_resource(scope), "READ")
        reply: pb.ExistsResponse = self._call("checkScopeExists", pb.ScopeInfo(scope=scope), purpose)
        return reply.exists

    def create_scope(self, scope: str) -> None:
        """Create a scope. Raises ScopeExistsError, InvalidNameError."""
        purpose = Purpose(f"create scope '{scope}'", ROOT_RESOURCE, "READ_UPDATE")
        reply, tries = self._channel.call("createScope", pb.ScopeInfo(scope=scope), purpose)
        refusals = {
            "SCOPE_EXISTS": errors.ScopeExistsError(f"scope '{scope}' already exists{describe_lost_reply(tries)}"),
            "INVALID_SCOPE_NAME": errors.InvalidNameError(
                f"Pravega does not accept '{scope}' as the name of a scope; use letters, digits, '-' and '.'"
            ),
        }
        self._check(reply, replace(purpose, refusals=refusals))

    def _delete_scope_unchecked(self, scope: str) -> None:
        """Delete a scope that is known to be empty; see `Controller.delete_scope`."""
        refusals = {
            "SCOPE_NOT_FOUND": make_scope_not_found_error(scope),
            "SCOPE_NOT_EMPTY": errors.ScopeNotEmptyError(
                f"scope '{scope}' is not empty: it holds streams or tables that the user may not see"
            ),
        }
        purpose = Purpose(f"delete scope '{scope}'", ROOT_RESOURCE, "READ_UPDATE", refusals)
        self._call_checked("deleteScope", pb.ScopeInfo(scope=scope), purpose, done="SCOPE_NOT_FOUND")


class KeyValueTableCalls(ControllerCalls):
    """Key-value tables, without their entries, which the segment stores keep."""

    def create_key_value_table(
        self, scope: str, name: str, partitions: int, primary_key_length: int, secondary_key_length: int = 0
    ) -> bool:
        """Create a table whose keys have exactly the given lengths in bytes; return False if it already exists.

        A 0.13 controller may drop the event that creates a table if somebody looks for the table at that moment, and
        keeps its name for ever. So creators in one process take turns, and those of other processes wait without a
        look as soon as the name is listed. Needs READ_UPDATE on the scope. Raises ScopeNotFoundError,
        InvalidNameError, InvalidOptionError, ServerFailedError for a name that was lost in that way.
        """
        for what, value in (("number of partitions", partitions), ("primary key length", primary_key_length)):
            if value < 1:
                raise errors.InvalidOptionError(
                    f"the {what} of key-value table '{scope}/{name}' is {value}; it must be at least 1"
                )
        request = pb.KeyValueTableConfig(
            scope=scope,
            kvtName=name,
            partitionCount=partitions,
            primaryKeyLength=primary_key_length,
            secondaryKeyLength=secondary_key_length,
        )
        deadline = time.monotonic() + self._channel.config.request_timeout
        pause, late = _FIRST_LOOK_SECONDS, False
        while True:
            with _creations.setdefault((self._channel.config.controller_uri, scope, name), threading.Lock()):
                if name not in self.list_key_value_tables(scope):
                    try:
                        return self._create_key_value_table(request)
                    except errors.ServerTimeoutError:
                        if late:
                            raise
                        late = True
            sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK_SECONDS)
            with suppress(errors.KeyValueTableNotFoundError, errors.PermissionDeniedError):
                self.key_value_table_segments(scope, name)
                return False
            if time.monotonic() > deadline and name in self.list_key_value_tables(scope):
                raise errors.ServerFailedError(
                    f"key-value table '{scope}/{name}' is half made: the controller has its name and nothing else, and "
                    "neither completes nor deletes it any more, because somebody looked for it while it was created. "
                    "Choose another name, or another scope for a table whose name begins with pyspark-pravega"
                )

    def _create_key_value_table(self, request: pb.KeyValueTableConfig) -> bool:
        scope, name = request.scope, request.kvtName
        refusals = {
            "SCOPE_NOT_FOUND": make_scope_not_found_error(scope),
            "INVALID_TABLE_NAME": errors.InvalidNameError(
                f"Pravega does not accept '{name}' as the name of a key-value table"
            ),
        }
        action = f"create key-value table '{scope}/{name}'"
        purpose = Purpose(action, name_scope_resource(scope), "READ_UPDATE", refusals)
        reply: pb.CreateKeyValueTableStatus = self._call("createKeyValueTable", request, purpose)
        if reply.status == pb.CreateKeyValueTableStatus.TABLE_EXISTS:
            return False
        self._check(reply, purpose)
        return True

    def list_key_value_tables(self, scope: str) -> list[str]:
        """Return the names of the tables of a scope that the caller may read, sorted. Raises ScopeNotFoundError."""
        action = f"list the key-value tables of scope '{scope}'"
        refusals = {"SCOPE_NOT_FOUND": make_scope_not_found_error(scope)}
        purpose = Purpose(action, name_scope_resource(scope), "READ", refusals)
        request = pb.KVTablesInScopeRequest(scope=pb.ScopeInfo(scope=scope), continuationToken=pb.ContinuationToken())
        tables = self._list_pages("listKeyValueTablesInScope", request, purpose, "kvtables")
        return sorted({table.kvtName for table in tables})

    def key_value_table_configuration(self, scope: str, name: str) -> KeyValueTableConfiguration:
        """Return the configuration of a table. Needs only READ on it. Raises KeyValueTableNotFoundError."""
        purpose = _make_table_purpose("look up key-value table", scope, name, "READ")
        request = pb.KeyValueTableInfo(scope=scope, kvtName=name)
        configuration = self._call_checked("getKeyValueTableConfiguration", request, purpose).config
        return KeyValueTableConfiguration(
            configuration.partitionCount, configuration.primaryKeyLength, configuration.secondaryKeyLength
        )

    def key_value_table_segments(self, scope: str, name: str) -> list[int]:
        """Return the segment ids of a table's partitions, in their order. Raises KeyValueTableNotFoundError.

        Needs READ_UPDATE on the table, even for reading: Pravega has no other call for it.
        """
        purpose = _make_table_purpose("look up the partitions of key-value table", scope, name, "READ_UPDATE")
        request = pb.KeyValueTableInfo(scope=scope, kvtName=name)
        reply: pb.SegmentRanges = self._call("getCurrentSegmentsKeyValueTable", request, purpose)
        return [segment.segment_id for segment in decode_ranges(reply.segmentRanges)]

    def delete_key_value_table(self, scope: str, name: str) -> None:
        """Delete a table with its entries. Raises KeyValueTableNotFoundError."""
        purpose = replace(
            _make_table_purpose("delete key-value table", scope, name, "READ_UPDATE"), remind=remind_of_nothing_else
        )
        request = pb.KeyValueTableInfo(scope=scope, kvtName=name)
        self._call_checked("deleteKeyValueTable", request, purpose, done="TABLE_NOT_FOUND")
        # The controller answers when the table's state is gone, and takes its name out of the scope just after that.
        # Until then the scope cannot be deleted, and who creates the name again waits for a table that never comes.
        pause = _FIRST_LOOK_SECONDS / 16
        with suppress(errors.PermissionDeniedError, errors.ScopeNotFoundError):
            while pause < _LONGEST_LOOK_SECONDS and name in self.list_key_value_tables(scope):
                sleep(pause)
                pause *= 2


def _make_table_purpose(action: str, scope: str, name: str, right: Right) -> Purpose:
    resource = f"prn::/scope:{scope}/key-value-table:{name}"
    missing = errors.KeyValueTableNotFoundError(f"there is no key-value table '{name}' in scope '{scope}'")
    refusals = {"NOT_FOUND": missing, "TABLE_NOT_FOUND": missing}
    return Purpose(f"{action} '{scope}/{name}'", resource, right, refusals)
