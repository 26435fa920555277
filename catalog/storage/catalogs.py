"""The configured catalogs of the driver's sessions, and their connections: one for each way to connect."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.datasource.connecting import read_client_config, read_first_contact
from pyspark_pravega.datasource.tables.open_table import OpenTable
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import AuthenticationError, InvalidOptionError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import quote_all

from .reporting import prefix_errors
from .user_logins import UserLogin, UserLogins

BY_OPTIONS = "by-options"
"""Marks the conf of a table by `format("pravega")`, whose options say how to connect and which stream is meant."""
CATALOG_NAME = "catalog-name"
"""The key under which the adapter passes a catalog's name."""
OF_STATEMENT = "of-statement"
"""Marks a conf that a statement or a program brought along, so that no login of the driver's environment joins it."""
_OF_SESSION = "of-session"
"""The key under which the adapter passes, separated by commas, the keys whose values are not those of the driver."""
_SESSION_CONNECTIONS = "session-connections"
"""The key by which the adapter says that sessions of this driver may set them."""
_SESSION_USER = "session-user"
"""The key under which the adapter passes the user of a server's session; empty if nobody knows the user."""
_OWN_KEYS = frozenset((CATALOG_NAME, BY_OPTIONS, OF_STATEMENT, _OF_SESSION, _SESSION_CONNECTIONS, _SESSION_USER))
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
        self._is_conf_of_driver = _is_conf_of_driver(conf)
        self.user = conf.get(_SESSION_USER)
        """The user of the session; None if the driver serves nobody."""
        self.pravega = pravega
        self.hold = hold

    def named(self, *parts: str) -> str:
        """Return the name of something in this catalog, for messages; what options name is in no catalog."""
        return "/".join(parts) if self.by_options else quote_all((self.name, *parts))

    def open_table(self, table: StreamTable) -> OpenTable:
        """Return a table for work that no query gives options to. Raises InvalidOptionError."""
        return OpenTable(self.pravega, table, self.options(properties=table.scan_properties))

    def options(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        read: Mapping[str, str] | None = None,
        write: Mapping[str, str] | None = None,
    ) -> o.Options:
        """Resolve the options of one statement over this catalog's conf.

        Raises InvalidOptionError, including for read and write options that the catalog or the table sets.
        """
        options = o.resolve(
            conf=self.conf, properties=properties, read=read, write=write, is_conf_of_driver=self._is_conf_of_driver
        )
        if self.by_options:
            return options
        for option in map(o.OPTIONS.__getitem__, options.keys_of(o.Source.QUERY)):
            if option.connection or option in _SAID_BY_TABLE:
                owner = f"catalog {self.name}" if option.connection else "the table itself"
                message = (
                    f"'{option.key}' cannot be given in a query on a table of a catalog: {owner} sets it. Leave it "
                    "out, or use spark.read.format('pravega') or df.write.format('pravega')."
                )
                if option is o.FORMAT:
                    message += (
                        " A stream of other programs gets columns by CREATE TABLE <its name> (<columns>) USING pravega "
                        f"TBLPROPERTIES ('{option.key}'='{options.text(option)}')."
                    )
                raise InvalidOptionError(message)
        return options


def remove_own_keys(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the conf without the keys that the adapter added."""
    return {key: value for key, value in conf.items() if key not in _OWN_KEYS}


def _is_conf_of_driver(conf: Mapping[str, str]) -> bool:
    """Return whether how to connect is said by the driver's conf alone, and not by a statement or a session.

    Raises InvalidOptionError if a session says it and may not.
    """
    refused = o.find_refused_settings(conf[_OF_SESSION].split(",")) if _OF_SESSION in conf else []
    if refused and _SESSION_CONNECTIONS not in conf:
        what = f"'{refused[0]}' counts" if refused[0] else "A catalog counts"
        raise InvalidOptionError(
            f"{what} only as the driver's conf had it when the driver started, and this session's conf has another. "
            "RESET it, and begin a new session. Who starts the driver sets it by --conf, in spark-defaults.conf or by "
            f"configure(). If the driver has a single user, {o.SESSION_CONNECTIONS}=true, set in one of these ways, "
            "lets sessions set it too."
        )
    return not refused and OF_STATEMENT not in conf


def _connect(options: o.Options, login: UserLogin | None) -> Pravega:
    config = read_client_config(options)
    if login is not None:
        config = replace(config, credentials=login.credentials, confluent_credentials=None)
    return connect(config, first_contact=read_first_contact(options))


@dataclass(eq=False)
class _Connection:
    """A connection and the number of its users: running calls and open INSERTs."""

    pravega: Pravega
    users: int = 0


class Connections:
    """Keeps a `Pravega` for each way to connect that is in use, and some that were used recently; thread-safe.

    Their number is bounded, because with tokens that are renewed every session may connect in a new way.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logins = UserLogins()
        self._by_settings: OrderedDict[tuple[tuple[str, str], ...], _Connection] = OrderedDict()
        """By the texts of the options, because a plug-in's credentials need not be comparable. They hold secrets.

        The one that was used last is at the end.
        """

    @contextmanager
    def catalog(self, conf: Mapping[str, str]) -> Iterator[Catalog]:
        """Use the catalog of a conf in the body, and connect if it is new. Raises InvalidOptionError."""
        name = conf.get(CATALOG_NAME)
        with prefix_errors("Catalog", name) if name is not None else nullcontext():
            options = o.resolve(conf=remove_own_keys(conf), is_conf_of_driver=_is_conf_of_driver(conf))
            login = self._find_login(options, conf.get(_SESSION_USER))
            texts = sorted((key, text) for key, text in options.texts().items() if o.OPTIONS[key].connection)
            key = (*texts, *((("user", login.user), ("state", login.state)) if login is not None else ()))
            # Outside the lock, because the user's own code may log in here. Nothing is sent to the servers yet.
            connection = self._use(key) or self._use(key, _connect(options, login))
        assert connection is not None
        try:
            yield Catalog(conf, connection.pravega, lambda: self._hold(connection))
        finally:
            self._release(connection)

    def _find_login(self, options: o.Options, user: str | None) -> UserLogin | None:
        """Return the login of the session's user, None where sessions have the driver's."""
        if user is None:
            return None
        source = options.get(o.USER_LOGINS)
        if source is None:
            raise AuthenticationError(
                f"A catalog of this driver has '{o.USER_LOGINS.key}', so the environment's login is not for its users. "
                f"Name that catalog, with '{o.CATALOG.key}'."
            )
        return self._logins.find(source, user)

    def _use(self, key: tuple[tuple[str, str], ...], new_connection: Pravega | None = None) -> _Connection | None:
        """Count a user of a connection and return it: the known one, or else `new_connection`; None without either."""
        with self._lock:
            existing = self._by_settings.get(key)
            if existing is None:
                if new_connection is None:
                    return None
                existing = self._by_settings[key] = _Connection(new_connection)
            existing.users += 1
            self._by_settings.move_to_end(key)
            idle = [key for key, connection in self._by_settings.items() if connection.users == 0]
            ended = [self._by_settings.pop(key).pravega for key in idle[: max(len(idle) - KEPT, 0)]]
        if new_connection is not None and existing.pravega is not new_connection:
            ended.append(new_connection)  # another call was faster
        for pravega in ended:
            pravega.close()
        return existing

    def _hold(self, connection: _Connection) -> Callable[[], None]:
        with self._lock:
            connection.users += 1
        return lambda: self._release(connection)

    def _release(self, connection: _Connection) -> None:
        with self._lock:
            connection.users -= 1

    def close(self) -> None:
        with self._lock:
            ended = list(self._by_settings.values())
            self._by_settings.clear()
        for connection in ended:
            connection.pravega.close()
