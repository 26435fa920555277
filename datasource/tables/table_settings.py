"""Read what a table is, apart from its columns, from table properties, and check that these fit together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, cast

from pyspark_pravega.client.stream import RetentionPolicy, ScalingPolicy, StreamConfiguration
from pyspark_pravega.errors import InvalidOptionError, shorten
from pyspark_pravega.formats.changes.feed import is_change_format
from pyspark_pravega.formats.core.format import Format, find_format
from pyspark_pravega.formats.core.framing import CONFLUENT
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.option_types import BYTE_SIZE, DURATION

TAG_PREFIX = "spark."
"""Prefix of the tags that hold table properties."""
LONGEST_TAG = 256
"""The most characters that Pravega accepts in a tag."""

_OF_CONFLUENT = ("avro", "json", "debezium-avro")
"""Formats whose events can have that framing; the registry has Protobuf's schemas as text, which is not parsed."""


@dataclass(frozen=True)
class TableSettings:
    """The properties of a table, checked against each other."""

    format: str
    framing: str
    codec: str
    routing_key: str | None
    routing_key_of_all: bool | None
    """Whether all events have the routing key; None if that is not set."""
    event_time: str | None
    event_time_delay: int
    """In milliseconds."""
    compatibility: str
    configuration: StreamConfiguration
    """The settings of the stream, with the users' own tags, without those that hold table properties."""
    format_settings: Mapping[str, str]
    scan_properties: Mapping[str, str]
    """The texts of the properties that apply to scans."""


OF_LAKE: tuple[o.Option[Any], ...] = (o.LAKE, o.LAKE_KEEP, o.LAKE_PARTITION, o.TIER_MIN_BYTES, o.TIER_INTERVAL)
"""Table properties about the lake of a table."""
READING: tuple[o.Option[Any], ...] = (o.MODE, o.DEAD_LETTER, *OF_LAKE)
"""Table properties that are no traits of the format: they apply to scans and to the lake."""


def read_table_settings(options: o.Options) -> TableSettings:
    """Read what options say of a table.

    Raises InvalidOptionError, which names the properties that contradict each other, or an unknown format.
    """
    format = find_format(options.get(o.FORMAT))
    if format.registry_format is None and options.source(o.COMPATIBILITY) is o.Source.PROPERTY:
        raise InvalidOptionError(
            f"'compatibility' does not apply with 'format'='{format.name}', which has no schema in the registry. Leave "
            "it out, or choose 'format'='avro' or 'json'."
        )
    framing, timeout = _read_framing(options, format), options.get(o.EVENT_TIME_TIMEOUT)
    return TableSettings(
        format=format.name,
        framing=framing,
        codec=_read_codec(options, framing),
        routing_key=options.get(o.ROUTING_KEY),
        routing_key_of_all=_read_routing_key_of_all(options, format),
        event_time=options.get(o.EVENT_TIME),
        event_time_delay=_read_delay(options),
        compatibility=options.get(o.COMPATIBILITY),
        configuration=StreamConfiguration(
            _read_scaling(options),
            _read_retention(options),
            _read_tags(options),
            options.get(o.ROLLOVER_SIZE) or 0,
            0 if timeout is None else count_milliseconds(timeout),
        ),
        format_settings=_select_format_settings(options, format),
        scan_properties={
            option.key: text
            for option in READING
            if options.source(option) is o.Source.PROPERTY and (text := options.text(option)) is not None
        },
    )


def _read_routing_key_of_all(options: o.Options, format: Format) -> bool | None:
    key_of_all = options.get(o.ROUTING_KEY_OF_ALL)
    if key_of_all is not None and is_change_format(format.name):
        raise InvalidOptionError(
            f"'{o.ROUTING_KEY_OF_ALL.key}' does not apply with 'format'='{format.name}', whose events are changes of "
            "rows. Leave it out."
        )
    if key_of_all is not None and options.get(o.ROUTING_KEY) is None:
        raise InvalidOptionError(
            f"'{o.ROUTING_KEY_OF_ALL.key}' needs '{o.ROUTING_KEY.key}', the column that it is about. Set both, or "
            "leave both out."
        )
    return key_of_all


def _read_delay(options: o.Options) -> int:
    if options.is_set(o.EVENT_TIME_DELAY) and options.get(o.EVENT_TIME) is None:
        raise InvalidOptionError(describe_missing_event_time(options))
    return count_milliseconds(options.get(o.EVENT_TIME_DELAY))


def describe_missing_event_time(options: o.Options) -> str:
    """Return the sentence for an `event-time.delay` without a column of times."""
    option = o.EVENT_TIME_DELAY
    return (
        f"'{options.name(option)}'='{options.text(option)}' needs '{o.EVENT_TIME.key}', the column with the times. Set "
        "both, or leave both out."
    )


def count_milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def _select_format_settings(options: o.Options, format: Format) -> dict[str, str]:
    """Return the texts of the options that only this format knows.

    Raises InvalidOptionError for one that belongs to other formats, unless it is a catalog's default.
    """
    settings, changes = {}, is_change_format(format.name)
    for option in o.OPTIONS.values():
        text = options.text(option)
        if not option.of_formats or text is None:
            continue
        if option.is_known_to(format.name, changes):
            settings[option.key] = text
        elif options.source(option) is not o.Source.CATALOG:
            allowed = " or ".join(f"'{one}'" for one in option.formats)
            if option.of_changes:
                allowed = "one whose events are changes of rows, such as 'debezium-json'"
            raise InvalidOptionError(
                f"'{option.key}' does not apply with 'format'='{format.name}'. Leave it out, or set 'format' to "
                f"{allowed}."
            )
    return settings


def check_unused(framing: str, options: o.Options) -> None:
    """Raise InvalidOptionError for an option that is of no use where Confluent's registry has the schemas."""
    for option in (o.COMPATIBILITY, o.DEBEZIUM_AVRO_SCHEMAS):
        if framing == CONFLUENT and options.source(option) in (o.Source.PROPERTY, o.Source.QUERY):
            raise InvalidOptionError(f"'{option.key}' does not apply with 'framing'='{CONFLUENT}'. Leave one out.")


def _read_framing(options: o.Options, format: Format) -> str:
    framing, registered = options.get(o.FRAMING), format.registry_format is not None
    if not registered and framing == "registry":
        raise InvalidOptionError(
            f"'framing'='registry' needs a schema in the registry, which 'format'='{format.name}' does not have. "
            "Leave 'framing' out, or choose 'format'='avro' or 'json'."
        )
    if framing == CONFLUENT and format.name not in _OF_CONFLUENT:
        raise InvalidOptionError(
            f"'framing'='{CONFLUENT}' is not possible with 'format'='{format.name}', only with "
            f"{', '.join(_OF_CONFLUENT)}. Choose one of these, or read the bytes with 'format'='raw'."
        )
    # Debezium's own sink does not write our header.
    return framing or ("registry" if registered and not is_change_format(format.name) else "none")


def _read_codec(options: o.Options, framing: str) -> str:
    codec = options.get(o.CODEC)
    if codec == "none" or framing == "registry":
        return codec
    if options.source(o.CODEC) is o.Source.CATALOG:
        return "none"  # a catalog's default applies only to tables that can have it
    raise InvalidOptionError(
        f"'codec'='{codec}' needs 'framing'='registry': events without that header do not say how "
        "they are compressed. Leave 'codec' out, or leave 'framing' at 'registry'."
    )


def _read_scaling(options: o.Options) -> ScalingPolicy:
    kind = options.get(o.SCALING_TYPE)
    rate = options.get(o.SCALING_TARGET_RATE)
    if kind == "fixed":
        for option in (o.SCALING_TARGET_RATE, o.SCALING_FACTOR):
            if options.is_set(option):
                raise InvalidOptionError(
                    f"'{option.key}' does not apply with 'scaling.type'='fixed'. Leave it out, or set "
                    "'scaling.type' to 'by-rate-kb' or 'by-rate-events'."
                )
    elif rate is None:
        unit = "kilobytes" if kind == "by-rate-kb" else "events"
        raise InvalidOptionError(
            f"'scaling.type'='{kind}' needs 'scaling.target-rate', the {unit} per second that one segment should take."
        )
    return ScalingPolicy(
        cast(Literal["fixed", "by-rate-kb", "by-rate-events"], kind),  # the option's type allows only these names
        rate or 0,
        options.get(o.SCALING_FACTOR),
        options.get(o.SCALING_MIN_SEGMENTS),
    )


def _read_retention(options: o.Options) -> RetentionPolicy | None:
    kind = options.get(o.RETENTION_TYPE)
    if kind is None:
        for option in (o.RETENTION_MINIMUM, o.RETENTION_MAXIMUM):
            if options.is_set(option):
                raise InvalidOptionError(f"'{option.key}' needs 'retention.type', which is 'time' or 'size'.")
        return None
    minimum = _read_amount(options, o.RETENTION_MINIMUM, kind)
    maximum = _read_amount(options, o.RETENTION_MAXIMUM, kind)
    if minimum is None:
        example = "7d" if kind == "time" else "10g"
        raise InvalidOptionError(
            f"'retention.type'='{kind}' needs 'retention.minimum', the amount that is always kept, for example "
            f"'{example}'."
        )
    if maximum is not None and maximum <= minimum:
        raise InvalidOptionError(
            f"'retention.maximum'='{options.text(o.RETENTION_MAXIMUM)}' must be more than "
            f"'retention.minimum'='{options.text(o.RETENTION_MINIMUM)}'."
        )
    return RetentionPolicy(cast(Literal["time", "size"], kind), minimum, maximum)


def _read_tags(options: o.Options) -> tuple[str, ...]:
    tags = options.get(o.TAGS) or ()
    for tag in tags:
        if len(tag) > LONGEST_TAG or tag.startswith(TAG_PREFIX):
            raise InvalidOptionError(
                f"'{shorten(tag)}' in 'tags' cannot be a tag: a tag has at most {LONGEST_TAG} characters, and tags "
                f"that begin with '{TAG_PREFIX}' hold table properties."
            )
    return tags


def _read_amount(options: o.Options, option: o.Option[str | None], kind: str) -> int | None:
    """Read a limit of retention in the unit of its kind, without which the text has no meaning."""
    text = options.get(option)
    if text is None:
        return None
    try:
        amount = DURATION.parse(text) // timedelta(milliseconds=1) if kind == "time" else BYTE_SIZE.parse(text)
        if not 0 < amount < 2**63:
            raise ValueError("out of range, allowed is more than 0")
    except ValueError as error:
        raise InvalidOptionError(
            f"The value '{shorten(text)}' of '{option.key}' is not valid with 'retention.type'='{kind}': {error}."
        ) from None
    return amount
