"""Scopes as namespaces and streams as tables: DDL, table metadata, and the service that Spark's driver calls.

`connect` opens the same catalog in Python, without Spark and Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api.catalog import PravegaCatalog
    from .api.scan import Scan
    from .api.table import Table

__all__ = ["PravegaCatalog", "Scan", "Table", "connect"]


def connect(catalog: str = "pravega", **options: str | int | bool | None) -> PravegaCatalog:
    """Open a catalog in this process. No JVM is started, and nothing is sent before the first question.

    For example:

        from pyspark_pravega.catalog import connect

        with connect(controller_uri="tcp://localhost:9090", schema_registry_uri="http://localhost:9092") as pravega:
            rows = pravega.load_table("iot.sensor").scan(columns=["location", "temp"], limit=10).to_arrow()

    `options` are those of docs/options.md that may stand in catalog conf, with `_` for `-` and `.`. What is not given
    comes from the environment (`PRAVEGA_CONTROLLER_URI`, ...). `catalog` is the name in messages. Raises
    InvalidOptionError and InvalidNameError.
    """
    from .api.catalog import open_catalog

    return open_catalog(catalog, options)


def __getattr__(name: str) -> Any:
    if name == "PravegaCatalog":
        from .api.catalog import PravegaCatalog

        return PravegaCatalog
    if name == "Table":
        from .api.table import Table

        return Table
    if name == "Scan":
        from .api.scan import Scan

        return Scan
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
