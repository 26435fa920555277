"""Reads what options declare a table to be, and checks it against the formats there are."""

from __future__ import annotations

from pyspark_pravega.formats.changes.feed import is_change_format
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.table_settings import FormatTraits, TableSettings, table_settings


def declared_settings(options: o.Options) -> TableSettings:
    """Return the settings of a table. Raises InvalidOptionError for an unknown format too, listing those there are."""
    return table_settings(options, format_traits(options.get(o.FORMAT)))


def format_traits(format: str) -> FormatTraits:
    """Return what settings depend on of a format. Raises InvalidOptionError for an unknown one."""
    return FormatTraits(registered=find_format(format).registry_format is not None, changes=is_change_format(format))
