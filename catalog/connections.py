"""Connections of the service, one for each way to connect that the sessions of a driver use."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.datasource.connection import client_config
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.options import OPTIONS, Options, Source, resolve

from .naming import about

_OWN_KEYS = frozenset(("catalog-name",))
_SAID_BY_TABLE = (o.SCOPE, o.STREAM, o.FORMAT, o.FRAMING)


class Catalog:
    """One configured catalog: its name, its options and its connection."""

    def __init__(self, conf: Mapping[str, str], pravega: Pravega) -> None:
        self.name = conf.get("catalog-name", "pravega")
        self.conf = catalog_conf(conf)
        self.pravega = pravega

    def options(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        read: Mapping[str, str] | None = None,
        write: Mapping[str, str] | None = None,
    ) -> Options:
        """Resolve the options of one statement over this catalog's conf.

        Raises InvalidOptionError also for read and write options which say what the catalog and the table say.
        """
        options = resolve(conf=self.conf, properties=properties, read=read, write=write)
        for option in OPTIONS.values():
            if options.source(option) is not Source.QUERY:
                continue
            if option.connection or option in _SAID_BY_TABLE:
                said = f"catalog {self.name} settles" if option.connection else "the table itself settles"
                raise InvalidOptionError(
                    f"'{option.key}' cannot be given in a query on a table of a catalog: {said} it. Leave it out, or "
                    "use spark.read.format('pravega') or df.write.format('pravega')."
                )
        return options


def catalog_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the conf without what the adapter added."""
    return {key: value for key, value in conf.items() if key not in _OWN_KEYS}


class Connections:
    """Keeps a `Pravega` for every distinct configuration; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_settings: dict[tuple[tuple[str, str], ...], Pravega] = {}
        """By the texts of the options: a plug-in's credentials need not be comparable. They hold secrets."""
        self._catalogs: dict[str, Catalog] = {}

    def catalog(self, conf: Mapping[str, str]) -> Catalog:
        """Return the catalog of a conf, connecting when it is new; raises InvalidOptionError."""
        key = json.dumps(conf, sort_keys=True)
        with self._lock:
            found = self._catalogs.get(key)
            if found is None:
                with about("Catalog", conf.get("catalog-name", "pravega")):
                    found = self._catalogs[key] = Catalog(conf, self._pravega(conf))
            return found

    def _pravega(self, conf: Mapping[str, str]) -> Pravega:
        options = resolve(conf=catalog_conf(conf))
        key = tuple(sorted((key, text) for key, text in options.texts().items() if OPTIONS[key].connection))
        found = self._by_settings.get(key)
        if found is None:
            found = self._by_settings[key] = connect(client_config(options))
        return found

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for pravega in self._by_settings.values():
                pravega.close()
            self._by_settings.clear()
            self._catalogs.clear()
