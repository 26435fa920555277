"""What options declare a table to be, checked against the formats there are."""

from __future__ import annotations

from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.table_settings import TableSettings, table_settings


def declared_settings(options: o.Options) -> TableSettings:
    """Return the settings of a table. Raises InvalidOptionError for an unknown format too, listing those there are."""
    format = find_format(options.get(o.FORMAT))
    return table_settings(options, registered=format.registry_format is not None)
