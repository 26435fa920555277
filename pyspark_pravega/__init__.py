"""Pravega as a catalog of Spark SQL: scopes are databases, streams are tables.

`DefaultSource` is what Spark's discovery of Python data sources looks for; `configure` prepares a
`SparkSession.Builder`. Both are loaded on first use, because the catalog service and the client
import this package without needing Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_pravega.datasource.source import PravegaDataSource as DefaultSource
    from pyspark_pravega.session import configure

__all__ = ["DefaultSource", "__version__", "configure"]

__version__ = "0.1.0"

# In a source checkout the sub-packages are the top-level folders beside this one; an installed
# distribution has them inside. Without this, a shell standing in the checkout could not import them.
if not (Path(__file__).parent / "client").is_dir():
    __path__.append(str(Path(__file__).resolve().parent.parent))


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from pyspark_pravega.datasource.source import PravegaDataSource

        return PravegaDataSource
    if name == "configure":
        from pyspark_pravega.session import configure

        return configure
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
