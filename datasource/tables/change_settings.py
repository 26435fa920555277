"""The settings of a table of changes as one statement sees them: with its own options, schemas read from files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql.types import StructType

from pyspark_pravega.formats.changes.debezium.avro import read_schemas
from pyspark_pravega.formats.changes.feed import AVRO_SCHEMAS, checked_settings
from pyspark_pravega.sql import options as o

from .declared import format_traits
from .stream_table import StreamTable


def with_statement_settings(table: StreamTable, columns: StructType, options: o.Options) -> StreamTable:
    """Return the table with the settings that one statement gives. `columns` are those of its rows.

    Raises InvalidOptionError for what does not fit the table.
    """
    settings = dict(table.settings)
    traits = format_traits(table.format)
    for option in o.OPTIONS.values():
        if option.known_to(table.format, traits.changes) and options.source(option) is o.Source.QUERY:
            settings[option.key] = str(options.text(option))
    return replace(table, settings=with_schemas(checked_settings(columns, settings)))


def with_schemas(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings with the schemas of the file that they name. Raises InvalidOptionError for another file."""
    if AVRO_SCHEMAS not in settings:
        return settings
    return {**settings, AVRO_SCHEMAS: read_schemas(settings[AVRO_SCHEMAS])}
