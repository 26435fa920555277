"""What the tags of a stream keep of its table is read as it was written."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.sql.types import StructType

from pyspark_pravega.catalog.storage.creation_mark import CreationMark, read_mark
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.tables.stored_properties import (
    describe_stored_table,
    make_stored_properties,
    make_tags,
    read_own_properties,
)
from pyspark_pravega.datasource.tables.table_settings import read_table_settings
from pyspark_pravega.errors import InvalidNameError
from pyspark_pravega.sql.options import resolve

TABLES: Mapping[str, Mapping[str, str]] = {
    "defaults": {},
    "avro": {"format": "avro", "codec": "gzip", "routing-key": "id", "routing-key.of-all-events": "true"},
    "json without header": {"format": "json", "framing": "none", "mode": "PERMISSIVE", "dead-letter": "iot.bad"},
    "csv": {"format": "csv", "csv.delimiter": ";", "csv.null-value": "-"},
    "times": {"format": "json", "event-time": "at", "event-time.delay": "90s"},
    "changes": {"format": "debezium-json", "primary-key": "id"},
    "tags": {"format": "raw", "tags": "red,green"},
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("comment", [None, "of a day", "Größe = 10\nzweite Zeile", "base64:eA==", "x" * 1000])
def test_properties_are_read_as_they_were_written(name: str, comment: str | None) -> None:
    settings = read_table_settings(resolve(conf={}, properties=TABLES[name]))
    tags = make_tags(make_stored_properties(settings, comment), settings.configuration.tags)
    stored = read_own_properties(tags)
    usual = read_table_settings(resolve(conf={}, properties={"format": settings.format})).framing
    read = describe_stored_table(Stream("a", "b"), stored["format"], StructType(), stored, framing=usual)
    assert (read.format, read.framing) == (settings.format, settings.framing)
    assert (read.codec, read.routing_key) == (settings.codec, settings.routing_key)
    assert stored.get("comment") == comment
    assert read.promised_key == (settings.routing_key if settings.routing_key_of_all else None)
    assert (read.event_time, read.event_time_delay) == (settings.event_time, settings.event_time_delay)
    assert read.settings == settings.format_settings
    assert read.scan_properties == settings.scan_properties
    assert [tag for tag in tags if not tag.startswith("spark.")] == list(settings.configuration.tags)


def test_a_mark_is_read_as_it_was_written() -> None:
    config = ClientConfig("tcp://localhost:9090", registry_uri="http://localhost:9092")
    mark = CreationMark.new(config, "schema")
    stored = read_own_properties(make_tags({"format": "json", **mark.stored}, ["red"]))
    assert read_mark(stored) == mark
    assert mark.is_for(config, "schema") and not mark.is_for(config, "another")
    assert read_mark({"format": "json"}) is None


def test_properties_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidNameError, match="shorten 'comment'"):
        make_tags({"comment": "x" * 40_000})
