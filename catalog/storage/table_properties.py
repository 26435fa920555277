"""Translates between table properties and what Pravega stores: stream configuration, schema group, tags."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark_pravega.client.registry.registry_types import Compatibility
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.tables.loading import LoadedTable
from pyspark_pravega.datasource.tables.stored_properties import (
    CREATING_KEY,
    make_stored_properties,
    make_tags,
    read_own_properties,
)
from pyspark_pravega.datasource.tables.table_settings import TAG_PREFIX, TableSettings
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError, shorten
from pyspark_pravega.formats.changes.feed import is_change_format
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import find_nearest
from pyspark_pravega.sql.option_types import format_byte_size, format_duration
from pyspark_pravega.sql.refusals import describe_refusal

PROVIDER = "pravega"
_WORD_OF_POLICY = re.compile("(?<=.)(?=[A-Z])")
_STREAM_OPTIONS = (
    o.SCALING_TYPE,
    o.SCALING_MIN_SEGMENTS,
    o.SCALING_TARGET_RATE,
    o.SCALING_FACTOR,
    o.RETENTION_TYPE,
    o.RETENTION_MINIMUM,
    o.RETENTION_MAXIMUM,
    o.ROLLOVER_SIZE,
    o.EVENT_TIME_TIMEOUT,
    o.TAGS,
)
"""The options that `make_stream_configuration` puts into the settings of the stream."""


def check_reserved(name: str, properties: Mapping[str, str]) -> None:
    """Refuse what Spark puts into properties but a stream cannot have: another provider or format, or a location."""
    provider = properties.get("provider", PROVIDER)
    if provider.lower() != PROVIDER:
        if find_nearest(provider, [PROVIDER]):
            raise InvalidOptionError(f"There is no provider '{shorten(provider)}'. Did you mean USING {PROVIDER}?")
        raise InvalidOptionError(
            f"USING {shorten(provider)} is not possible: the tables of this catalog are streams. In SQL write "
            f"USING {PROVIDER}, or leave USING out. DataFrames use {shorten(provider)} by default: call "
            "df.writeTo(table).tableProperty('format', 'avro').create(), or add "
            f".format('{PROVIDER}') to saveAsTable and source='{PROVIDER}' to catalog.createTable."
        )
    if properties.get("external") == "true":
        raise UnsupportedOperationError(describe_refusal("CREATE EXTERNAL TABLE", name))
    if "location" in properties and properties.get("is_managed_location") != "true":
        raise UnsupportedOperationError(
            f"LOCATION '{shorten(properties['location'])}' is not possible on {name}: a table's data is its "
            "Pravega stream. Leave LOCATION out."
        )
    if any(key.startswith("hive.") for key in properties):
        raise UnsupportedOperationError(
            f"STORED AS and ROW FORMAT are not possible on {name}: a table's data is its Pravega stream. Leave them "
            "out, and set the table property 'format'."
        )


def check_partitions(name: str, partitions: Sequence[str]) -> None:
    """Refuse all clauses that would partition a table."""
    if partitions:
        shown = ", ".join(re.sub(r"^identity\((.*)\)$", r"\1", part) for part in partitions)
        raise UnsupportedOperationError(
            f"PARTITIONED BY, CLUSTERED BY, CLUSTER BY and partitionBy are not possible on {name} ({shown}): a stream "
            "has a routing key instead. Set the table property 'routing-key', as "
            "in df.writeTo(table).tableProperty('routing-key', '<column>').create()."
        )


def make_stream_configuration(settings: TableSettings, kept: Mapping[str, str]) -> StreamConfiguration:
    return replace(settings.configuration, tags=make_tags(kept, settings.configuration.tags))


def get_policy(name: str) -> Compatibility:
    """Return the policy that a value of the property `compatibility` names."""
    return Compatibility(name.title().replace("-", ""))


def check_adoption(options: o.Options) -> None:
    """Refuse properties of the stream if it exists already and keeps its own."""
    for option in _STREAM_OPTIONS:
        if options.is_set(option):
            raise InvalidOptionError(
                f"'{option.key}'='{options.text(option)}' cannot be set: the stream exists already, and keeps its "
                "own settings. Leave the property out."
            )


def find_differing(
    settings: TableSettings, comment: str | None, options: o.Options, configuration: StreamConfiguration
) -> list[str]:
    """Return the properties in which a stream differs: those kept as tags, and the given ones of the stream."""
    kept, tagged = make_stored_properties(settings, comment), read_own_properties(configuration.tags)
    requested = show_stream_properties(make_stream_configuration(settings, kept))
    present = show_stream_properties(configuration)
    keys = [option.key for option in _STREAM_OPTIONS if options.is_set(option)]
    return [
        *sorted(key for key in {*kept, *tagged} - {CREATING_KEY} if kept.get(key) != tagged.get(key)),
        *(key for key in keys if requested.get(key) != present.get(key)),
    ]


def name_policy(compatibility: Compatibility) -> str:
    """Return a group's policy as the property `compatibility` writes it; advanced ones have no name there."""
    policy = compatibility.policy
    return "allow-any" if policy == "Advanced" else _WORD_OF_POLICY.sub("-", policy).lower()


def show_policy(compatibility: Compatibility) -> str:
    """Return a group's policy for people to read: `advanced` where the property has no name for it."""
    return "advanced" if compatibility.policy == "Advanced" else name_policy(compatibility)


def show_properties(loaded: LoadedTable) -> dict[str, str]:
    """Return all properties of a table: passed to CREATE TABLE, they make an equal one."""
    table, configuration = loaded.table, loaded.configuration
    properties = {"provider": PROVIDER, "format": table.format}
    if find_format(table.format).registry_format is not None:
        properties["framing"] = table.framing
    shown = ("routing-key", o.EVENT_TIME.key, o.EVENT_TIME_DELAY.key, "codec", "comment")
    for key in (*shown, *table.settings, *table.scan_properties):
        if key in loaded.stored:
            properties[key] = loaded.stored[key]
    if "routing-key" in properties and not is_change_format(table.format):
        properties[o.ROUTING_KEY_OF_ALL.key] = loaded.stored.get(o.ROUTING_KEY_OF_ALL.key, "false")
    if loaded.group is not None and find_format(table.format).registry_format is not None:
        properties["compatibility"] = name_policy(loaded.group.compatibility)
    return properties | show_stream_properties(configuration)


def list_alterable_properties(loaded: LoadedTable) -> dict[str, str]:
    """Return the properties that ALTER TABLE begins with: all but `tags`.

    Tags of other programs stay as they are, because a list with commas may not be able to express them.
    """
    return {key: text for key, text in show_properties(loaded).items() if key != o.TAGS.key}


def show_stream_properties(configuration: StreamConfiguration) -> dict[str, str]:
    """Return the properties that are settings of the stream itself."""
    scaling, retention = configuration.scaling, configuration.retention
    properties = {"scaling.min-segments": str(scaling.min_segments)}
    if scaling.kind != "fixed":
        properties["scaling.type"] = scaling.kind
        properties["scaling.target-rate"] = str(scaling.target_rate)
        properties["scaling.factor"] = str(scaling.factor)
    if retention is not None:
        write = format_duration if retention.kind == "time" else format_byte_size
        properties["retention.type"] = retention.kind
        properties["retention.minimum"] = write(retention.minimum)
        if retention.maximum is not None:
            properties["retention.maximum"] = write(retention.maximum)
    if configuration.timestamp_aggregation_timeout_ms:
        properties["event-time-timeout"] = format_duration(configuration.timestamp_aggregation_timeout_ms)
    if configuration.rollover_size_bytes:
        properties["rollover-size"] = format_byte_size(configuration.rollover_size_bytes)
    if tags := [tag for tag in configuration.tags if not tag.startswith(TAG_PREFIX)]:
        properties["tags"] = ",".join(sorted(tags))
    return properties


def make_place_properties(*streams: Stream) -> dict[str, str]:
    """Return the properties that name the streams of a table, whatever SQL calls it. No statement sets them."""
    return {"location": ", ".join(map(str, streams)), "is_managed_location": "true"}
