"""The configured catalogs of the driver's sessions, and their connections: one for each way to connect."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TypeAlias

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.datasource.connecting import read_client_config, read_first_contact
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import quote_all
from pyspark_pravega.sql.options import OPTIONS, Options, Source, resolve

from .reporting import prefix_errors

BY_OPTIONS = "by-options"
"""Marks the conf of a table by `format("pravega")`, whose options say how to connect and which stream is meant."""
CATALOG_NAME = "catalog-name"
"""The key under which the adapter passes a catalog's name."""
_OWN_KEYS = frozenset((CATALOG_NAME, BY_OPTIONS))
Hold: TypeAlias = Callable[[], Callable[[], None]]
KEPT = 16
"""How many connections without a user are kept for the next one."""
_SAID_BY_TABLE = (o.CATALOG, o.SCOPE, o.STREAM, o.STREAMS, o.PATTERN_OF_STREAMS, o.FORMAT, o.FRAMING, o.CHANGES)


class Catalog:
    """One configured catalog: its name, its options and its connection."""

    def __init__(self, conf: Mapping[str, str], pravega: Pravega, hold: Hold = lambda: lambda: None) -> None:
        """Set it up. `hold` keeps the connection open after the call, until the function that it returns is called."""
        self.name = conf.get(CATALOG_NAME, "pravega")
        self.by_options = BY_OPTIONS in conf
        self.conf = remove_own_keys(conf)
        self.pravega = pravega
        self.hold = hold

    def named(self, *parts: str) -> str:
        """Return the name of something in this catalog, for messages; what options name is in no catalog."""
        return "/".join(parts) if self.by_options else quote_all((self.name, *parts))

    def options(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        read: Mapping[str, str] | None = None,
        write: Mapping[str, str] | None = None,
    ) -> Options:
        """Resolve the options of one statement over this catalog's conf.

        Raises InvalidOptionError, including for read and write options that the catalog or the table sets.
        """
        options = resolve(conf=self.conf, properties=properties, read=read, write=write)
        if self.by_options:
            return options
        for option in OPTIONS.values():
            if options.source(option) is not Source.QUERY:
                continue
            if option.connection or option in _SAID_BY_TABLE:
                owner = f"catalog {self.name}" if option.connection else "the table itself"
                raise InvalidOptionError(
                    f"'{option.key}' cannot be given in a query on a table of a catalog: {owner} sets it. Leave it "
                    "out, or use spark.read.format('pravega') or df.write.format('pravega')."
                )
        return options


def remove_own_keys(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the conf without the keys that the adapter added."""
    return {key: value for key, value in conf.items() if key not in _OWN_KEYS}


def _connect(options: Options) -> Pravega:
    return connect(read_client_config(options), first_contact=read_first_contact(options))


class _Connection:
    """A connection and the number of its users: running calls and open INSERTs."""

    def __init__(self, pravega: Pravega) -> None:
        self.pravega = pravega
        self.users = 0


class Connections:
    """Keeps a `Pravega` for each way to connect that is in use, and some that were used recently; thread-safe.

    Their number is bounded, because with tokens that are renewed every session may connect in a new way.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_settings: OrderedDict[tuple[tuple[str, str], ...], _Connection] = OrderedDict()
        """By the texts of the options, because a plug-in's credentials need not be comparable. They hold secrets.

        The one that was used last is at the end.
        """

    @contextmanager
    def catalog(self, conf: Mapping[str, str]) -> Iterator[Catalog]:
        """Use the catalog of a conf in the body, and connect if it is new. Raises InvalidOptionError."""
        name = conf.get(CATALOG_NAME)
        with prefix_errors("Catalog", name) if name is not None else nullcontext():
            options = resolve(conf=remove_own_keys(conf))
            key = tuple(sorted((key, text) for key, text in options.texts().items() if OPTIONS[key].connection))
            with self._lock:
                known = key in self._by_settings
            # Outside the lock, because the user's own code may log in here. Nothing is sent to the servers yet.
            made = None if known else _connect(options)
            connection = self._use(key, made) or self._use(key, _connect(options))
        assert connection is not None
        try:
            yield Catalog(conf, connection.pravega, lambda: self._hold(connection))
        finally:
            self._release(connection)

    def _use(self, key: tuple[tuple[str, str], ...], made: Pravega | None) -> _Connection | None:
        """Count a user of a connection and return it: the known one, or else `made`. Returns None without either."""
        with self._lock:
            found = self._by_settings.get(key)
            if found is None:
                if made is None:
                    return None
                found = self._by_settings[key] = _Connection(made)
            found.users += 1
            self._by_settings.move_to_end(key)
            idle = [key for key, connection in self._by_settings.items() if connection.users == 0]
            ended = [self._by_settings.pop(key) for key in idle[: max(len(idle) - KEPT, 0)]]
        for connection in ended:
            connection.pravega.close()
        return found

    def _hold(self, connection: _Connection) -> Callable[[], None]:
        with self._lock:
            connection.users += 1
        return lambda: self._release(connection)

    def _release(self, connection: _Connection) -> None:
        with self._lock:
            connection.users -= 1

    def __len__(self) -> int:
        """Count the connections."""
        with self._lock:
            return len(self._by_settings)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            ended = list(self._by_settings.values())
            self._by_settings.clear()
        for connection in ended:
            connection.pravega.close()
