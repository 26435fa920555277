"""Options of a catalog, and those that say which stream is meant."""

from __future__ import annotations

from ..names_elsewhere import BY_OPTIONS
from ..option_types import TEXT, Option, SettableAs, one_of, optional
from .places import CONNECTION, QUERY

PYTHON = Option(
    "python",
    optional(TEXT),
    None,
    SettableAs.CATALOG,
    "Python interpreter of the catalog service on the driver; it must have this package. Not set: the driver's Python "
    "(`spark.pyspark.driver.python`, `PYSPARK_DRIVER_PYTHON`) if it is a Python, else the tasks' Python "
    "(`spark.pyspark.python`, `PYSPARK_PYTHON`, then `python3`).",
)
SPELLING = Option(
    "names",
    one_of("sql", "exact"),
    "sql",
    SettableAs.CATALOG,
    "How SQL spells the names of scopes and streams. `sql`: `_` also means `-`, because Pravega's names have no `_`; "
    "lists show `_`. `exact`: as Pravega does.",
    "sql",
)
SCOPE = Option(
    "scope",
    optional(TEXT),
    None,
    CONNECTION,
    "Scope of the stream. In catalog conf: the namespace that `USE <catalog>` selects.",
    env="PRAVEGA_SCOPE",
    hint=BY_OPTIONS,
)
CATALOG = Option(
    "catalog",
    optional(TEXT),
    None,
    QUERY,
    'For `spark.read.format("pravega")` and the like: the catalog whose conf says how to connect. Not set: the options '
    "of the query, if one of them does; else the session's catalog of Pravega, if it has only one; else the "
    "environment.",
)
STREAM = Option(
    "stream",
    optional(TEXT),
    None,
    QUERY,
    'Name of the stream, for `spark.read.format("pravega")` and `df.write.format("pravega")`.',
    hint=BY_OPTIONS,
)
