"""Logins and passwords: nothing that could be one leaves a Flink script.

It is not guessed which options are secret. Values are shown of options that are known to be harmless, and of no others.
"""

from __future__ import annotations

import re

HIDDEN = "***"
"""What stands in the place of a value."""
_HARMLESS = frozenset(
    """connector controller-uri default-database format hive-conf-dir key.fields key.format parallelism.default path
    pipeline.name pravega-registry.format pravega-registry.group-id pravega-registry.namespace
    pravega-registry.uri properties.bootstrap.servers properties.group.id restart-strategy scan.end-streamcuts
    scan.event-read.timeout.interval scan.execution.type scan.parallelism
    scan.reader-group.checkpoint-initiate-timeout.interval scan.reader-group.max-outstanding-checkpoint-request
    scan.reader-group.name scan.reader-group.refresh.interval scan.start-streamcuts scan.startup.mode
    scan.streams scan.uid schema-registry-uri scope security.trust-store security.validate-hostname
    serialization.format sink.enable.watermark-propagation sink.routing-key.field.name sink.semantic sink.stream
    sink.txn-lease-renewal.interval table-name topic type value.format""".split()
)
_HARMLESS_GROUPS = (
    *("avro.", "csv.", "json.", "raw.", "canal-json.", "debezium-json.", "maxwell-json."),
    *("execution.", "sql-client.", "state.backend", "state.checkpoints.", "state.savepoints.", "table."),
)
_SECRET_WORDS = (
    r"pass(?:word|phrase|wd)|pwd|secret|token|credential|sasl|authorization|signature"
    r"|(?:access|account|api|encryption|private|shared)[._-]?key"
)
_SECRET_KEY = re.compile(rf"{_SECRET_WORDS}|auth|user", re.IGNORECASE)
_WITHOUT_LOGIN = ("abfs", "abfss", "wasb", "wasbs")
"""Schemes whose URIs have a container before the `@`."""

_TEXT = r"'(?:[^']|'')*'"
_PAIR = re.compile(rf"'((?:[^']|'')+)'(\s*=\s*)({_TEXT})")
_HINT = re.compile(r"/\*\+(.*?)\*/", re.DOTALL)
_SETTING = re.compile(
    r"^(\s*(?:--|/\*)?\s*SET\s+['`\"]?)([\w.-]+)(['`\"]?\s*=\s*)(\S.*)$", re.IGNORECASE | re.MULTILINE
)
_URI = re.compile(r"([A-Za-z][\w+.-]{0,30})://([^\s'\"]*)")
_ASSIGNED = re.compile(
    rf"((?:{_SECRET_WORDS})[\w.-]{{0,100}}[\"'`]?\s*(?:=>|=|:)\s*)(\"[^\"]*\"|{_TEXT}|[^\s,;&)'\"]+)", re.IGNORECASE
)


def is_harmless(key: str) -> bool:
    """Tell whether the value of an option or setting can be shown."""
    low = key.strip().lower()
    return low in _HARMLESS or (low.startswith(_HARMLESS_GROUPS) and not _SECRET_KEY.search(low))


def shown(key: str, value: str) -> str:
    """Return the value of an option as it can be shown."""
    return hide_logins(value) if is_harmless(key) else HIDDEN


def hide_logins(text: str) -> str:
    """Return a text without logins in URIs, and without what stands behind words such as `password=`."""
    return _ASSIGNED.sub(_hidden_value, _URI.sub(_hidden_uri, text))


def without_login(uri: str) -> str:
    """Return a URI without login and parameters."""
    return _URI.sub(lambda found: f"{found[1]}://{_parts(found)[1]}", uri)


def hide(text: str) -> str:
    """Return a piece of a script, such as a comment, without the values of options that are not harmless."""
    text = _HINT.sub(_hidden_hint, text)
    text = _PAIR.sub(lambda found: _masked(found, found[1], f"'{found[1]}'{found[2]}", f"'{HIDDEN}'"), text)
    text = _SETTING.sub(lambda found: _masked(found, found[2], "".join(found.groups()[:3]), HIDDEN), text)
    return hide_logins(text)


def _masked(found: re.Match[str], key: str, kept: str, hidden: str) -> str:
    return found[0] if is_harmless(key) else kept + hidden


def _hidden_hint(found: re.Match[str]) -> str:
    pairs = list(_PAIR.finditer(found[1]))
    rest = re.fullmatch(r"\s*(\w*)([\s(,)]*)", _PAIR.sub("", found[1]))
    if rest and all(is_harmless(each[1]) for each in pairs):
        return found[0]
    name = re.match(r"\s*\w*", found[1])
    return f"/*+{name[0] if name else ''}({HIDDEN}) */"


def _hidden_value(found: re.Match[str]) -> str:
    quote = found[2][0] if found[2][0] in "'\"" else ""
    return f"{found[1]}{quote}{HIDDEN}{quote}"


def _parts(found: re.Match[str]) -> tuple[str, str, str]:
    """Return login, place and parameters of a URI."""
    login, _, rest = found[2].rpartition("@")
    if found[1].lower() in _WITHOUT_LOGIN and ":" not in login:
        login, rest = "", found[2]
    place, _, parameters = rest.partition("?")
    return login, place, parameters


def _hidden_uri(found: re.Match[str]) -> str:
    login, place, parameters = _parts(found)
    return f"{found[1]}://{f'{HIDDEN}@' if login else ''}{place}{f'?{HIDDEN}' if parameters else ''}"
