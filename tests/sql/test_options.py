"""Options: every place, every type, precedence, and what a wrong option is answered with."""

from __future__ import annotations

import json
import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.option_types import BYTE_SIZE, DURATION, find_matches
from pyspark_pravega.sql.options import OPTIONS, SettableAs, Source, resolve, resolve_script
from tests.reference_pages import renew_page

ROOT = Path(__file__).resolve().parents[2]


def test_precedence_is_query_property_conf_environment_default() -> None:
    env = {"PRAVEGA_SCOPE": "from-env"}
    assert resolve(env={}).get(o.SCOPE) is None
    assert resolve(env=env).get(o.SCOPE) == "from-env"
    assert resolve(env=env, conf={"scope": "from-conf"}).get(o.SCOPE) == "from-conf"
    assert resolve(env=env, conf={"scope": "from-conf"}, read={"scope": "r"}).get(o.SCOPE) == "r"
    layered = resolve(conf={"codec": "gzip"}, properties={"codec": "snappy"}, env={})
    assert (layered.get(o.CODEC), layered.source(o.CODEC)) == ("snappy", Source.PROPERTY)
    layered = resolve(conf={"codec": "gzip"}, properties={"codec": "snappy"}, write={"codec": "none"}, env={})
    assert (layered.get(o.CODEC), layered.source(o.CODEC)) == ("none", Source.QUERY)


def test_a_weaker_setting_is_checked_even_when_it_does_not_count() -> None:
    with pytest.raises(InvalidOptionError, match="'gzipp' of 'codec'"):
        resolve(conf={"codec": "gzipp"}, write={"codec": "none"}, env={})


def test_every_default_text_means_the_default() -> None:
    for option in OPTIONS.values():
        if option.default_text is not None:
            assert option.type.parse(option.default_text) == option.default, option.key


def test_values_are_typed() -> None:
    options = resolve(
        read={"read-window": "32m", "fail-on-data-loss": "FALSE", "request-timeout": " 2 min "},
        env={},
    )
    assert options.get(o.READ_WINDOW) == 32 << 20
    assert options.get(o.FAIL_ON_DATA_LOSS) is False
    assert options.get(o.REQUEST_TIMEOUT) == timedelta(minutes=2)
    assert options.get(o.RETRY_TIMEOUT) == timedelta(seconds=60)
    assert options.is_set(o.READ_WINDOW) and not options.is_set(o.RETRY_TIMEOUT)


def test_keys_come_in_any_case_but_may_not_disagree() -> None:
    assert resolve(read={"Start-Stream-Cut": "Latest"}, env={}).get(o.START_STREAM_CUT) == "latest"
    with pytest.raises(InvalidOptionError, match="'scope' is given twice with different values, once as 'SCOPE'; keep"):
        resolve(read={"scope": "a", "SCOPE": "b"}, env={})
    options = resolve(read={"maxRowsPerTrigger": "5"}, env={})
    assert (options.name(o.MAX_ROWS_PER_TRIGGER), options.name(o.CONSUMER)) == ("maxRowsPerTrigger", "consumer")


def test_keys_of_spark_are_left_alone() -> None:
    properties = {
        "provider": "pravega",
        "owner": "me",
        "comment": "x",
        "option.format": "json",
        "format": "json",
    }
    assert resolve(properties=properties, env={}).texts() == {"format": "json"}
    assert resolve(write={"checkpointLocation": "/tmp/c", "queryName": "q"}, env={}).texts() == {}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"read": {"readwndow": "1m"}},
            r"no read option 'readwndow' \(value '1m'\). Did you mean 'readWindow'",
        ),
        ({"read": {"maxRowPerTrigger": "5"}}, "no read option 'maxRowPerTrigger'.*Did you mean 'maxRowsPerTrigger'"),
        ({"read": {"max-row-per-trigger": "5"}}, "Did you mean 'max-rows-per-trigger'"),
        ({"read": {"maxRowsPerTrigger": "five"}}, "'five' of 'maxRowsPerTrigger'"),
        ({"read": {"maxrowspertrigger": "five"}}, "'five' of 'maxRowsPerTrigger'"),
        ({"write": {"maxRowsPerTrigger": "5"}}, "'maxRowsPerTrigger' cannot be a write option"),
        ({"read": {"controller_uri": "tcp://a:1"}}, "Did you mean 'controller-uri'"),
        ({"write": {"zzzz": "1"}}, "no write option 'zzzz'.*Valid keys: controller-uri, "),
        ({"conf": {"scaling.type": "fixed"}}, "'scaling.type' cannot be a catalog conf.*table property"),
        ({"read": {"python": "python3"}}, "'python' cannot be a read option. Set it as a catalog conf"),
        ({"properties": {"controller-uri": "tcp://a:1"}}, "belongs to the user who connects"),
        ({"properties": {"formta": "avro"}}, "Did you mean 'format'"),
        (
            {"read": {"format": "par quet"}},
            "'par quet' of 'format'.*the name of a format: avro, csv, json",
        ),
        ({"read": {"path": "/x"}}, r"no read option 'path'.*\.option\('scope', 'iot'\).*spark\.readStream\.table"),
        ({"write": {"table": "iot.x"}}, r"no write option 'table'.*'stream', 'sensor'.*writeStream\.toTable"),
        ({"read": {"__pravega.columns": "[]"}}, "no read option '__pravega.columns'"),
        ({"read": {"read-window": "12 elephants"}}, "whole number of bytes"),
        ({"read": {"read-window": "-1"}}, "whole number of bytes"),
        ({"read": {"read-window": "1k"}}, "allowed: 64k to 256m"),
        ({"read": {"read-window": ""}}, "it is empty"),
        ({"read": {"read-window": "1t"}}, "allowed: 64k to 256m"),
        ({"read": {"request-timeout": "30"}}, "whole number and a unit"),
        ({"read": {"request-timeout": "1.5s"}}, "whole number and a unit"),
        ({"read": {"request-timeout": "3 fortnights"}}, "whole number and a unit"),
        ({"read": {"request-timeout": "99999999999d"}}, "too long"),
        ({"read": {"request-timeout": "1ms"}}, "allowed: 100ms to 1h"),
        ({"write": {"transaction.lease": "9s"}}, "allowed: 10s to 600s"),
        ({"write": {"transaction.lease": "601s"}}, "allowed: 10s to 600s"),
        ({"read": {"fail-on-data-loss": "yes"}}, "expected true or false"),
        ({"properties": {"scaling.min-segments": "0"}}, "allowed: 1 to 10000"),
        ({"properties": {"scaling.min-segments": "four"}}, "expected a whole number"),
        ({"properties": {"scaling.min-segments": "1e3"}}, "expected a whole number"),
        ({"read": {"current-rows.remembered-in": "rows"}}, "absolute path or the URI of a directory"),
        ({"read": {"current-rows.remembered-in": "file:rows"}}, "absolute path or the URI of a directory"),
        (
            {"read": {"pattern": "(?=a)b"}},
            r"that RE2 takes, .* \(invalid perl operator: \(\?=\)\. It has no look-around|that RE2",
        ),
        ({"properties": {"pattern": r"(a)\1"}}, "invalid escape sequence.* no references to groups"),
        ({"properties": {"pattern": "a)|(b"}}, "unexpected \\)"),
        ({"conf": {"security.credentials": "just.a.module"}}, "expected module:attribute"),
        ({"conf": {"security.password": "${env:NOT_THERE}"}}, "environment variable NOT_THERE"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        resolve(**settings, env={})


@pytest.mark.parametrize(
    ("read", "message"),
    [
        ("startingOffsets", "Did you mean 'startStreamCut'"),
        ("endingOffsets", "Did you mean 'endStreamCut'"),
        ("startingTimestamp", "Did you mean 'startTimestamp'"),
        ("startingOffsetsByTimestamp", "Did you mean 'startTimestamp'"),
        ("startingVersion", "Did you mean 'startVersion'"),
        ("maxOffsetsPerTrigger", "Did you mean 'maxRowsPerTrigger'"),
        ("minOffsetsPerTrigger", "Did you mean 'minRowsPerTrigger'"),
        ("maxFilesPerTrigger", "Did you mean 'maxBytesPerTrigger'"),
        ("subscribe", "Did you mean 'stream'"),
        ("subscribePattern", "Did you mean 'pattern'"),
        ("kafka.group.id", "Did you mean 'consumer'"),
        ("ignoreDeletes", "neither changed nor deleted: leave the option out"),
        ("readChangeFeed", r"spark\.readStream\.changes\(table\)"),
        ("versionasoff", r"Spark's own option is 'versionAsOf', .*read\.option\('versionAsOf', \.\.\.\)\.table"),
        ("timestamp-as-of", "Spark's own option is 'timestampAsOf'"),
        ("versionAsOf", "Spark's own option is 'versionAsOf'"),
    ],
)
def test_names_of_kafka_and_delta_lead_to_ours(read: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"no read option '{read}'.*{message}") as caught:
        resolve(read={read: "latest"}, env={})
    assert "Valid keys" not in str(caught.value)


@pytest.mark.parametrize(("write", "ours"), [("key", "routingKey"), ("compression", "codec"), ("topic", "stream")])
def test_names_of_other_sinks_lead_to_ours(write: str, ours: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"no write option '{write}'.* Did you mean '{ours}'"):
        resolve(write={write: "id"}, env={})


def test_options_may_be_spelt_as_kafka_and_delta_spell_theirs() -> None:
    read = {"failOnDataLoss": "false", "maxBytesPerTrigger": "10m", "maxTriggerDelay": "15 minutes"}
    options = resolve(read=read, env={})
    assert options.get(o.FAIL_ON_DATA_LOSS) is False
    assert options.get(o.MAX_BYTES_PER_TRIGGER) == 10 << 20
    assert options.get(o.MAX_TRIGGER_DELAY) == timedelta(minutes=15)
    options = resolve(write={"txnAppId": "job", "txnVersion": "7"}, env={})
    assert (options.get(o.TXN_APP_ID), options.get(o.TXN_VERSION)) == ("job", 7)


SECRET = "hunter2-swordfish"


@pytest.mark.parametrize(
    "settings",
    [
        {"properties": {"security.password": SECRET}},
        {"properties": {"security.auth-token": SECRET}},
        {"conf": {"securty.pasword": SECRET}},
        {"conf": {"auth-token": SECRET}},
        {"conf": {"api_key": SECRET}},
        {"conf": {"controller-uri": f"tcp://admin:{SECRET}@host:9090"}},
        {"conf": {"controler": f"tcp://admin:{SECRET}@host:9090"}},
        {"conf": {"current-rows.remembered-in": f"s3a://key:{SECRET}@bucket/rows"}},
        {"read": {"current-rows.remembered-in": f"S3A://key:a/{SECRET}@bucket/rows"}},
        {"read": {"security.password": SECRET, "SECURITY.PASSWORD": SECRET + "x"}},
    ],
)
def test_no_secret_is_in_an_error(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        resolve(**settings, env={})
    assert SECRET not in str(caught.value) and SECRET not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_no_secret_is_in_a_printed_or_formatted_object() -> None:
    options = resolve(conf={"security.password": SECRET, "security.username": "me"}, env={})
    assert SECRET not in f"{options} {options!r}"
    assert options.get(o.PASSWORD) == SECRET and options.texts()["security.password"] == SECRET


def test_a_secret_keeps_its_blanks_and_may_be_a_reference_in_conf_only() -> None:
    assert resolve(conf={"security.password": " a b "}, env={}).get(o.PASSWORD) == " a b "
    env = {"MY_PASSWORD": SECRET}
    assert resolve(conf={"security.password": "${env:MY_PASSWORD}"}, env=env).get(o.PASSWORD) == SECRET
    query = resolve(read={"security.password": "${env:MY_PASSWORD}"}, env=env)
    assert query.get(o.PASSWORD) == "${env:MY_PASSWORD}"


def test_options_of_tasks_have_no_secret() -> None:
    conf = {"security.password": SECRET, "security.username": "me", "lake.type": "rest", "lake.token": SECRET}
    options = resolve(conf=conf, read={"stream": "s"}, env={"PRAVEGA_SCHEMA_REGISTRY_PASSWORD": SECRET})
    assert SECRET.encode() in pickle.dumps(options)
    rest = options.without_secrets()
    assert SECRET.encode() not in pickle.dumps(rest) and rest.get(o.STREAM) == "s"


def test_options_survive_pickling() -> None:
    options = resolve(conf={"controller-uri": "tcp://a:1"}, read={"stream": "s"}, env={})
    again = pickle.loads(pickle.dumps(options))
    assert again == options and again.get(o.STREAM) == "s"


@pytest.mark.parametrize("directory", ["/rows", "file:/rows", "hdfs://a:8020/rows", "abfss://box@store.net/rows"])
def test_a_directory_may_be_in_any_file_system(directory: str) -> None:
    found = resolve(conf={"current-rows.remembered-in": directory}, env={})
    assert found.get(o.CURRENT_ROWS_REMEMBERED_IN) == directory


def test_texts_resolve_to_the_same_values_again() -> None:
    options = resolve(conf={"controller-uri": "tcp://a:1", "read-window": "1m"}, env={"PRAVEGA_SCOPE": "iot"})
    again = resolve(read=options.texts(), env={})
    assert again.get(o.READ_WINDOW) == 1 << 20 and again.get(o.SCOPE) == "iot"


def test_a_missing_needed_option_says_how_to_set_it() -> None:
    with pytest.raises(InvalidOptionError, match="is needed.*PRAVEGA_CONTROLLER_URI.*pyspark-pravega local start"):
        resolve(env={}).require(o.CONTROLLER_URI)


def test_an_empty_environment_variable_counts_as_not_set() -> None:
    assert resolve(env={"PRAVEGA_CONTROLLER_URI": ""}).get(o.CONTROLLER_URI) is None


def test_java_dynamic_credentials_of_the_environment_are_refused_unless_replaced() -> None:
    env = {"pravega_client_auth_loadDynamic": "true", "pravega_client_auth_method": "Bearer"}
    with pytest.raises(InvalidOptionError, match="security.credentials"):
        resolve(env=env)
    assert resolve(conf={"security.credentials": "my.module:Login"}, env=env).get(o.CREDENTIALS) == "my.module:Login"


def test_no_connection_option_may_be_a_table_property() -> None:
    for option in OPTIONS.values():
        if option.secret or option.connection:
            assert SettableAs.PROPERTY not in option.allowed, option.key


@given(
    st.integers(0, 10**6),
    st.sampled_from([("k", 10), ("m", 20), ("g", 30), ("t", 40), ("", 0), ("kb", 10), ("MiB", 20)]),
)
def test_byte_sizes(number: int, unit: tuple[str, int]) -> None:
    assert BYTE_SIZE.parse(f"{number}{unit[0]}") == number << unit[1]


@given(
    st.integers(0, 10**5),
    st.sampled_from([("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)]),
)
def test_durations(number: int, unit: tuple[str, int]) -> None:
    assert DURATION.parse(f"{number} {unit[0]}") == timedelta(milliseconds=number * unit[1])


def test_patterns_take_time_in_proportion_to_names() -> None:
    """Python's own expressions would take 2 ** 34 steps, and hold all other threads meanwhile."""
    evil = "a" * 34
    assert find_matches("(a+)+[b-z]", [evil, f"{evil}b", "b"]) == [f"{evil}b"]
    assert find_matches("hall-.*|room", ["hall-1", "hall", "room", "rooms", "hall-1\n", "my-hall-1"]) == [
        "hall-1",
        "room",
    ]


@given(st.sampled_from(sorted(OPTIONS)), st.text(max_size=20))
def test_any_text_is_a_value_or_a_clear_error(key: str, text: str) -> None:
    option = OPTIONS[key]
    place = {
        SettableAs.CATALOG: "conf",
        SettableAs.PROPERTY: "properties",
        SettableAs.READ: "read",
        SettableAs.WRITE: "write",
    }
    keyword = next((name for where, name in place.items() if where & option.allowed), None)
    settings: Any = {keyword: {key: text}}
    try:
        if keyword is None:
            resolve_script({key: text})
        else:
            resolve(**settings, env={})
    except InvalidOptionError as error:
        assert key in str(error)


def test_the_documentation_is_up_to_date() -> None:
    page = ROOT / "docs" / "options.md"
    assert page.read_text() == renew_page(page), "run `make docs/options.md`"


def test_properties_of_the_lakes_catalog_are_one_secret() -> None:
    conf = {"Lake.type": "rest", "lake.uri": "https://lake", "lake.token": "${env:TOKEN}"}
    options = o.resolve(conf=conf, env={"TOKEN": "hidden"})
    assert json.loads(options.require(o.LAKE_CATALOG)) == {"type": "rest", "uri": "https://lake", "token": "hidden"}
    assert "hidden" not in repr(options) and "https" not in repr(options)
    with pytest.raises(InvalidOptionError, match="property 'token' of catalog conf 'lake.*' refers to .* TOKEN"):
        o.resolve(conf=conf, env={})
    assert o.find_refused_settings(["lake.uri", "scope"]) == ["lake.*"]
    env = {"PRAVEGA_LAKE": '{"type": "sql"}', "TOKEN": "hidden"}
    assert o.resolve(conf={}, env=env).get(o.LAKE_CATALOG) == '{"type": "sql"}'
    assert json.loads(o.resolve(conf=conf, env=env).require(o.LAKE_CATALOG))["type"] == "rest"
    env["PRAVEGA_LAKE"] = '{"type": "rest", "token": "${env:TOKEN}"}'
    assert json.loads(o.resolve(env=env).require(o.LAKE_CATALOG)) == {"type": "rest", "token": "hidden"}
    with pytest.raises(InvalidOptionError, match="variable PRAVEGA_LAKE refers to the environment variable TOKEN,"):
        o.resolve(env={"PRAVEGA_LAKE": env["PRAVEGA_LAKE"]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"token": ["hidden"]}', "expected a JSON object whose values are texts"),
        ("hidden", "expected a JSON object whose values are texts"),
        ("{}", "expected a JSON object whose values are texts"),
        ('{"lake.token": "hidden"}', "leave their prefix lake. out"),
    ],
)
def test_the_variable_of_the_lake_is_checked(text: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message) as error:
        o.resolve(env={"PRAVEGA_LAKE": text})
    assert "PRAVEGA_LAKE" in str(error.value) and "hidden" not in str(error.value)


def test_a_lake_is_named_by_the_table_and_left_out_by_a_read() -> None:
    options = o.resolve(properties={"lake": "iot.sensor"}, read={"lake": "ignore"}, env={})
    assert options.get(o.LAKE) == "ignore"
    with pytest.raises(InvalidOptionError, match="<namespace>.<table>"):
        o.resolve(properties={"lake": "sensor"}, env={})
    with pytest.raises(InvalidOptionError, match="expected one of ignore, only"):
        o.resolve(read={"lake": "iot.sensor"}, env={})
