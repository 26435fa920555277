"""Translate the options of Flink's Pravega tables and formats."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from pyspark_pravega.errors import format_count

from ..option_types import DURATION
from .report import Findings, Untranslatable
from .secrets import remove_login, show_value

MILLISECOND = timedelta(milliseconds=1)
IN_CHECKPOINTS = "Spark keeps positions in the checkpoint, and needs no reader group"
NO_READER_GROUP = {
    "scan.reader-group.name": IN_CHECKPOINTS,
    "scan.uid": "the name of a streaming statement identifies its checkpoint, see 'pravega.stream.name'",
    "scan.reader-group.max-outstanding-checkpoint-request": IN_CHECKPOINTS,
    "scan.reader-group.refresh.interval": IN_CHECKPOINTS,
    "scan.reader-group.checkpoint-initiate-timeout.interval": IN_CHECKPOINTS,
    "scan.event-read.timeout.interval": "a micro-batch takes what is there, and does not wait for events",
}
CONNECTION = ("controller-uri", "security.trust-store", "security.validate-hostname")
SECRETS = ("security.auth-type", "security.auth-token")
FORMATS = ("json", "avro", "avro-confluent", "csv", "raw", "pravega-registry", "debezium-json", "maxwell-json")
CHANGES = ("debezium-json", "maxwell-json")
"""Formats of changes, whose tables cannot promise a routing key."""
_EXACTLY_ONCE = "exactly-once"
_CSV = {
    "field-delimiter": "csv.delimiter",
    "quote-character": "csv.quote",
    "escape-character": "csv.escape",
    "null-literal": "csv.null-value",
}
_WITHOUT_MEANING = {
    "schema-include": "events with and without schemas are distinguished automatically",
    "encode.decimal-as-plain-number": "decimals are always written as plain numbers",
    "timestamp-format.standard": "both standards are read",
}
_DEFAULTS = {
    "fail-on-missing-field": "false",
    "ignore-parse-errors": "false",
    "map-null-key.mode": "FAIL",
    "disable-quote-character": "false",
    "allow-comments": "false",
    "charset": "UTF-8",
    "endianness": "big-endian",
}
"""Options of formats that have no equivalent, each with the value that needs no translation."""


@dataclass
class TableOptions:
    """The translated options of a table: its streams, its properties, the options of its scans and writes."""

    scope: str | None = None
    sources: list[str] = field(default_factory=list)
    sink: str | None = None
    streaming: bool = True
    starts: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    connection: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    reading: dict[str, str] = field(default_factory=dict)
    writing: dict[str, str] = field(default_factory=dict)
    format: str = "json"
    sql_timestamps: bool = False
    propagates_watermarks: bool = False


def translate_options(options: Mapping[str, str], findings: Findings) -> TableOptions:
    """Translate the options of a table of connector `pravega`.

    Raises Untranslatable for a format or a value that cannot be kept; adds a finding for what is left out.
    """
    rest = dict(options)
    rest.pop("connector", None)
    translated = TableOptions(scope=rest.pop("scope", None), sink=rest.pop("sink.stream", None))
    translated.sources = _split_list(rest.pop("scan.streams", ""))
    for key, cuts in (("scan.start-streamcuts", translated.starts), ("scan.end-streamcuts", translated.ends)):
        cuts += _split_list(rest.pop(key, ""))
        if cuts and len(cuts) != len(translated.sources):
            streams = format_count(len(translated.sources), "stream")
            raise Untranslatable(f"'{key}' has {format_count(len(cuts), 'stream cut')} for {streams}")
    translated.streaming = _take_choice(rest, "scan.execution.type", "streaming", ("streaming", "batch")) == "streaming"
    for key in CONNECTION:
        if key in rest:
            translated.connection[key] = strip_login(key, rest.pop(key), findings)
    if secrets := [key for key in SECRETS if rest.pop(key, None) is not None]:
        note_login_not_copied(f" ({', '.join(secrets)})", findings)
    _translate_sink(rest, translated, findings)
    for key, reason in NO_READER_GROUP.items():
        if key in rest:
            findings.note(f"'{key}' is left out: {reason}")
            del rest[key]
    _translate_format(rest, translated, findings)
    if "routing-key" in translated.properties and translated.format not in CHANGES:
        # A declaration says how one job writes, and nothing about other writers.
        translated.properties["routing-key.of-all-events"] = "false"
    for key in rest:
        findings.check(f"The option '{key}' is not known, and was left out")
    return translated


def parse_milliseconds(text: str) -> int | None:
    """Return a Flink duration (`30 s`, `5min`) in milliseconds; None if the text is not a duration."""
    text = text.strip()
    with suppress(ValueError):
        return DURATION.parse(f"{text}ms" if text.isdecimal() else text) // MILLISECOND
    return None


def _split_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


def _take_choice(rest: dict[str, str], key: str, default: str, allowed: tuple[str, ...]) -> str:
    value = rest.pop(key, default)
    if value.lower() not in allowed:
        raise Untranslatable(f"'{key}' is '{value}'; Flink allows {', '.join(allowed)}")
    return value.lower()


def strip_login(key: str, value: str, findings: Findings) -> str:
    """Return the value of an option of the connection, without a login in its URI."""
    if (without := remove_login(value)) != value:
        note_login_not_copied(f" (in '{key}')", findings)
    return without


def note_login_not_copied(what: str, findings: Findings) -> None:
    """Note where to give the login instead."""
    findings.note(
        f"The login{what} is not copied: set pravega_client_auth_method and pravega_client_auth_token in the "
        "environment of `pyspark-pravega run`"
    )


def _translate_sink(rest: dict[str, str], options: TableOptions, findings: Findings) -> None:
    mode = _take_choice(rest, "sink.semantic", _EXACTLY_ONCE, (_EXACTLY_ONCE, "at-least-once", "best-effort"))
    if mode != _EXACTLY_ONCE:
        options.writing["write-mode"] = mode
    if (lease := rest.pop("sink.txn-lease-renewal.interval", None)) is not None:
        length = parse_milliseconds(lease)
        if length is not None and 10_000 <= length <= 600_000:
            options.writing["transaction.lease"] = f"{length}ms"
        else:
            findings.check(
                f"'sink.txn-lease-renewal.interval' = '{lease}' is left out: a lease lasts 10 s to 10 min here"
            )
    if (key := rest.pop("sink.routing-key.field.name", None)) is not None:
        options.properties["routing-key"] = key
    options.propagates_watermarks = rest.pop("sink.enable.watermark-propagation", "false").lower() == "true"


def _translate_format(rest: dict[str, str], options: TableOptions, findings: Findings) -> None:
    name = rest.pop("format", "json" if options.scope else "")
    if name not in FORMATS:
        advice = " a Canal event holds several rows" if name == "canal-json" else ""
        raise Untranslatable(
            f"The format '{name}' is not known here;{advice or ' the known ones are ' + ', '.join(FORMATS)}"
        )
    options.format = name
    settings = {key[len(name) + 1 :]: rest.pop(key) for key in list(rest) if key.startswith(f"{name}.")}
    standard = settings.get("timestamp-format.standard", "SQL").upper()
    options.sql_timestamps = name == "csv" or (name == "json" and standard == "SQL")
    if name == "pravega-registry":
        _translate_registry(settings, options, findings)
    elif name == "avro-confluent":
        _translate_confluent(settings, options, findings)
    else:
        options.properties = {"format": name, **options.properties}
        if name in ("json", "avro"):
            options.properties["framing"] = "none"
    for key, text in settings.items():
        if name == "csv" and key in _CSV:
            options.properties[_CSV[key]] = "tab" if text in ("\\t", "\t") else text
        elif key == "ignore-parse-errors" and text.lower() == "true":
            options.reading["mode"] = "dropmalformed"
            if name != "csv":
                findings.check(
                    f"'{name}.{key}': Flink reads a malformed field as NULL; here the whole event is left out, and is "
                    "counted"
                )
        elif key in _WITHOUT_MEANING:
            findings.note(f"'{name}.{key}' is left out: {_WITHOUT_MEANING[key]}")
        elif text.lower() != _DEFAULTS.get(key, "").lower():
            findings.check(
                f"'{name}.{key}' = '{show_value(f'{name}.{key}', text)}' has no equivalent, and was left out"
            )


def _translate_registry(settings: dict[str, str], options: TableOptions, findings: Findings) -> None:
    if (uri := settings.pop("uri", None)) is not None:
        options.connection["schema-registry-uri"] = strip_login("pravega-registry.uri", uri, findings)
    for key in (*CONNECTION[1:], *SECRETS):
        settings.pop(key, None)
    kind = settings.pop("format", "Avro").lower()
    if kind not in ("avro", "json"):
        raise Untranslatable(f"'pravega-registry.format' is '{kind}'; Flink allows Avro and Json")
    namespace, group = settings.pop("namespace", options.scope), settings.pop("group-id", None)
    streams = {*options.sources, *([options.sink] if options.sink else [])}
    if namespace != options.scope or (group is not None and streams and streams != {group}):
        raise Untranslatable(
            f"The schema group '{namespace}/{group}' is not the one of the stream; a table uses the group of its own "
            "name"
        )
    for key in [key for key in settings if key == "timestamp-format.standard" or _DEFAULTS.get(key) == settings[key]]:
        del settings[key]
    options.properties = {"format": kind, **options.properties}


def _translate_confluent(settings: dict[str, str], options: TableOptions, findings: Findings) -> None:
    if options.sink is not None:
        raise Untranslatable("A table of 'avro-confluent' is only read here, and this one has a 'sink.stream'")
    uri, *others = settings.pop("url", settings.pop("schema-registry.url", "")).split(",")
    if not uri or others:
        raise Untranslatable(
            f"The registry's address in 'avro-confluent.url' is {'one of several' if uri else 'missing'}: name one"
        )
    for key in ("basic-auth.credentials-source", "basic-auth.user-info"):
        settings.pop(key, None)
    findings.note(
        f"Give the catalog the conf confluent.registry-uri={remove_login(uri)} when `pyspark-pravega run` starts, and "
        "confluent.username and confluent.password if that registry asks for a login"
    )
    options.properties = {"format": "avro", "framing": "confluent", **options.properties}
