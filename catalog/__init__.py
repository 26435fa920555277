"""Scopes as namespaces and streams as tables: DDL, table metadata, and the service that Spark's driver calls.

`connect` opens the same catalog in Python, without Spark and Java.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api.catalog import PravegaCatalog
    from .api.scan import Scan
    from .api.table import Table

__all__ = ["PravegaCatalog", "Scan", "Table", "connect"]


def connect(catalog: str = "pravega", **options: str | int | bool | None) -> PravegaCatalog:
    """Open a catalog in this process, without Spark and without a JVM.

    Nothing is sent to the servers before the first method needs an answer.

    `catalog`: the name of the catalog, in messages and in front of names of tables. `**options`: the options of
    docs/options.md that catalog conf can have, with `_` for `-` and `.`: `controller_uri`, `schema_registry_uri`.
    Options that are missing come from the environment (`PRAVEGA_CONTROLLER_URI`, ...).

    Returns the catalog; as a context manager it closes its connections at the end.

    Raises InvalidOptionError for an unknown option or a wrong value; InvalidNameError if no catalog can be so named.

    Examples
    --------
    >>> from pyspark_pravega.catalog import connect
    >>> with connect(controller_uri="tcp://localhost:9090", schema_registry_uri="http://localhost:9092") as pravega:
    ...     rows = pravega.load_table("iot.sensor").scan(columns=["location", "temp"], limit=10).to_arrow()
    """
    from .api.catalog import open_catalog

    return open_catalog(catalog, options)


_MODULES = {"PravegaCatalog": "catalog", "Table": "table", "Scan": "scan"}
"""Where classes are that are imported when they are first needed."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f".api.{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
