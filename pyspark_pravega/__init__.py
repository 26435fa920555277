"""Pravega as a catalog of Spark SQL: scopes are databases, streams are tables.

`DefaultSource` is what Spark's discovery of Python data sources looks for; `configure` prepares a
`SparkSession.Builder`. Both are loaded on first use, because the catalog service and the client
import this package without needing Spark.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which takes its time to load: Ctrl-C is ours as soon as this package is loaded
if TYPE_CHECKING:
    from typing import Any

    from pyspark_pravega.datasource.data_source import PravegaDataSource as DefaultSource
    from pyspark_pravega.spark.session import configure

__all__ = ["DefaultSource", "__version__", "configure"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from pyspark_pravega.datasource.data_source import PravegaDataSource

        return PravegaDataSource
    if name == "configure":
        from pyspark_pravega.spark.session import configure

        return configure
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
