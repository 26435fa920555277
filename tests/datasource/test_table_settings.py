"""Table properties that only make sense together."""

from __future__ import annotations

import pytest

from pyspark_pravega.client.stream import RetentionPolicy, ScalingPolicy, StreamConfiguration
from pyspark_pravega.datasource.tables.table_settings import TableSettings, read_table_settings
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql.options import resolve
from tests.formats.core.test_installed_formats import bring

__all__ = ["bring"]


def read_settings(properties: dict[str, str], conf: dict[str, str] | None = None) -> TableSettings:
    return read_table_settings(resolve(properties=properties, conf=conf, env={}))


def test_defaults() -> None:
    assert read_settings({}) == TableSettings(
        "avro",
        "registry",
        "none",
        None,
        None,
        None,
        0,
        "backward",
        StreamConfiguration(ScalingPolicy("fixed", 0, 2, 1)),
        {},
        {},
    )


@pytest.mark.parametrize("format", ["raw", "text", "csv"])
def test_tables_without_registry_have_no_framing(format: str) -> None:
    assert read_settings({"format": format}).framing == "none"
    assert read_settings({"format": format}, {"codec": "gzip"}).codec == "none"
    for key, value in [("framing", "registry"), ("compatibility", "full"), ("codec", "gzip")]:
        with pytest.raises(InvalidOptionError, match=f"'{key}'"):
            read_settings({"format": format, key: value})


@pytest.mark.parametrize("bring", ["Whole", "Registered"], indirect=True)
def test_another_distribution_says_whether_the_registry_knows_its_format(bring: str) -> None:
    assert read_settings({"format": bring}).framing == ("registry" if bring == "brought-registered" else "none")


@pytest.mark.parametrize("bring", ["RegisteredChanges", "Registered"], indirect=True)
def test_a_primary_key_belongs_to_every_format_of_changes(bring: str) -> None:
    properties = {"format": bring, "primary-key": "id"}
    if bring == "brought-registeredchanges":
        found = read_settings(properties)
        assert (found.framing, dict(found.format_settings)) == ("none", {"primary-key": "id"})
        return
    with pytest.raises(InvalidOptionError, match="one whose events are changes of rows, such as 'debezium-json'"):
        read_settings(properties)


def test_what_counts_for_scans_is_kept() -> None:
    properties = {"mode": "PERMISSIVE", "format": "raw"}
    assert read_settings(properties).scan_properties == {"mode": "PERMISSIVE"}
    assert read_settings({}, {"mode": "permissive"}).scan_properties == {}, "a catalog's default is not the table's"


def test_scaling_and_retention() -> None:
    given = read_settings(
        {
            "scaling.type": "by-rate-kb",
            "scaling.target-rate": "100",
            "scaling.factor": "3",
            "scaling.min-segments": "4",
            "retention.type": "time",
            "retention.minimum": "1h",
            "retention.maximum": "2d",
            "rollover-size": "64m",
        }
    )
    assert given.configuration == StreamConfiguration(
        ScalingPolicy("by-rate-kb", 100, 3, 4),
        RetentionPolicy("time", 3_600_000, 172_800_000),
        rollover_size_bytes=64 << 20,
    )
    by_size = read_settings({"retention.type": "size", "retention.minimum": "10g"})
    assert by_size.configuration.retention == RetentionPolicy("size", 10 << 30)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"format": "raw", "framing": "registry"}, "needs a schema"),
        ({"framing": "none", "codec": "gzip"}, "'codec'='gzip' needs 'framing'='registry'"),
        ({"format": "raw", "codec": "snappy"}, "'codec'='snappy' needs 'framing'='registry'"),
        ({"scaling.target-rate": "5"}, "does not apply with 'scaling.type'='fixed'"),
        ({"scaling.factor": "5"}, "does not apply with 'scaling.type'='fixed'"),
        ({"scaling.type": "by-rate-events"}, "needs 'scaling.target-rate', the events per second"),
        ({"retention.minimum": "1h"}, "needs 'retention.type'"),
        ({"retention.maximum": "1h"}, "needs 'retention.type'"),
        ({"retention.type": "size"}, "needs 'retention.minimum'.*10g"),
        ({"retention.type": "time", "retention.minimum": "10g"}, "'10g' of 'retention.minimum'.*unit"),
        ({"retention.type": "size", "retention.minimum": "7d"}, "'7d' of 'retention.minimum'.*bytes"),
        ({"retention.type": "time", "retention.minimum": "0s"}, "more than 0"),
        (
            {"retention.type": "time", "retention.minimum": "2h", "retention.maximum": "1h"},
            "must be more than",
        ),
    ],
)
def test_contradictions_are_named(properties: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        read_settings(properties)
