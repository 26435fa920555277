"""Pravega for Python: controller, segment stores, key-value tables and schema registry, without Spark.

`connect(config)` opens all of it. Programs also need the other names here: settings of streams, the appender of
segments and the framing of its events, and what the schema registry stores.

Importing this package loads no network library; the first use of a name or a service that needs one does.
"""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING, Any

from pyspark_pravega.errors import ClientClosedError

from .closing import ClosedAtEnd
from .config import ClientConfig
from .retry import FirstContact
from .stream import ScalingPolicy, Stream, StreamConfiguration

if TYPE_CHECKING:
    from .controller.controller import Controller
    from .key_value.key_value_table import KeyValueTable
    from .registry.registry_types import Compatibility, GroupProperties, SchemaInfo
    from .registry.schema_registry import SchemaRegistry
    from .segments.append import SegmentAppender
    from .segments.delegation import DelegationTokens
    from .segments.event_frames import frame
    from .segments.known_streams import KnownStreams
    from .segments.store import SegmentStore

__all__ = [
    "ClientConfig",
    "Compatibility",
    "GroupProperties",
    "Pravega",
    "ScalingPolicy",
    "SchemaInfo",
    "SegmentAppender",
    "Stream",
    "StreamConfiguration",
    "connect",
    "frame",
]


def connect(config: ClientConfig, *, first_contact: float | None = None) -> Pravega:
    """Connect to the services of one cluster. Each service opens its connections when it is first used.

    `config`: addresses, credentials, trust and time limits. `first_contact`: seconds to keep trying a controller or a
    registry that has never answered, if it refuses connections or its host is unknown. By default the configuration's
    `retry_timeout`.

    Returns the services; as a context manager it closes their connections at the end.

    Examples
    --------
    >>> config = ClientConfig("tcp://localhost:9090", registry_uri="http://localhost:9092")
    >>> with connect(config) as pravega:
    ...     print(pravega.controller.list_scopes())
    ...     print(pravega.registry("plant").groups())
    """
    return Pravega(config, first_contact)


class Pravega(ClosedAtEnd):
    """The services of one cluster. Threads can share it.

    It is a context manager that closes the connections. It can be pickled; the copy opens connections of its own.

    `config`: addresses, credentials, trust and time limits. `first_contact`: see :func:`connect`.

    `controller`: scopes, streams, transactions, stream cuts, key-value tables, reader groups. `segments`: bytes,
    creation times and states of segments. `tokens`: what `segments` shows to the segment stores. `known_streams`: what
    earlier calls have found out about streams, which is checked before it is used.

    Examples
    --------
    >>> with Pravega(ClientConfig("tcp://localhost:9090")) as pravega:
    ...     pravega.controller.create_scope("plant")
    ...     pravega.controller.create_stream(Stream("plant", "temperatures"), StreamConfiguration())
    """

    controller: Controller
    segments: SegmentStore
    tokens: DelegationTokens
    known_streams: KnownStreams

    def __init__(self, config: ClientConfig, first_contact: float | None = None) -> None:
        self.config = config
        self._of_controller, self._of_registry = FirstContact(first_contact), FirstContact(first_contact)
        self._lock = threading.RLock()  # its holder may be the first to use a service
        self._registries: dict[str | None, SchemaRegistry] = {}
        self._tables: dict[tuple[str, str, int | None], KeyValueTable] = {}
        self._closed = False

    def __getattr__(self, name: str) -> Any:
        """Make the services when the first of them is used."""
        if name not in ("controller", "tokens", "segments", "known_streams"):
            raise AttributeError(f"Pravega has no attribute '{name}'")
        from .controller.controller import Controller
        from .segments.delegation import DelegationTokens
        from .segments.known_streams import KnownStreams
        from .segments.store import SegmentStore

        with self._lock:
            if "controller" not in vars(self):
                self._check_open()
                controller = Controller(self.config, self._of_controller)
                tokens = DelegationTokens(controller)
                segments = SegmentStore(self.config, controller, tokens)
                known_streams = KnownStreams(segments, controller)
                vars(self).update(tokens=tokens, segments=segments, known_streams=known_streams, controller=controller)
        return vars(self)[name]

    def key_value_table(self, scope: str, name: str, *, primary_key_length: int | None = None) -> KeyValueTable:
        """Return a key-value table, which need not exist yet.

        The next call with the same arguments returns the same object, which remembers the table's partitions.

        `primary_key_length`: needed for a table with secondary keys; see `KeyValueTable`.
        """
        with self._lock:
            key = scope, name, primary_key_length
            if key not in self._tables:
                from .key_value.key_value_table import KeyValueTable

                self._tables[key] = KeyValueTable(
                    self.segments, self.controller, scope, name, primary_key_length=primary_key_length
                )
            return self._tables[key]

    def registry(self, namespace: str | None = None) -> SchemaRegistry:
        """Return the schema registry's groups in one namespace.

        `namespace`: the schemas of a scope are in the namespace of its name. None is the default namespace.

        Raises InvalidOptionError if the configuration has no address of a registry.
        """
        with self._lock:
            if namespace not in self._registries:
                self._check_open()
                from .registry.schema_registry import SchemaRegistry

                self._registries[namespace] = SchemaRegistry(self.config, namespace, self._of_registry)
            return self._registries[namespace]

    def close(self) -> None:
        """Close all connections. Calls in other threads fail, or end their connections themselves."""
        with self._lock:
            self._closed = True
            for service in (vars(self).get("segments"), vars(self).get("controller"), *self._registries.values()):
                if service is not None:
                    service.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError("the client is closed; connect again")

    def __getstate__(self) -> ClientConfig:
        return self.config

    def __setstate__(self, config: ClientConfig) -> None:
        self.__init__(config)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"Pravega({self.config.controller_uri})"


_MODULES = {
    "Compatibility": ".registry.registry_types",
    "GroupProperties": ".registry.registry_types",
    "SchemaInfo": ".registry.registry_types",
    "SegmentAppender": ".segments.append",
    "frame": ".segments.event_frames",
}
"""The modules of the names that are imported when they are first used."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name], __name__), name)
