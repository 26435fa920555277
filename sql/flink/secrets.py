"""Keep logins and passwords of a Flink script out of everything that is written.

Nothing guesses which options are secret: only values of options that are known to be harmless are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import Token, TokenType

from pyspark_pravega.errors import InvalidScriptError

from .statements import TEXTS, Cursor, FlinkStatement, split_list

HIDDEN = "***"
"""The text that replaces a hidden value."""
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
    """Return whether the value of an option or setting can be shown."""
    low = key.strip().lower()
    return low in _HARMLESS or (low.startswith(_HARMLESS_GROUPS) and not _SECRET_KEY.search(low))


def show_value(key: str, value: str) -> str:
    """Return the value of an option as it can be shown."""
    return hide_logins(value) if is_harmless(key) else HIDDEN


def hide_logins(text: str) -> str:
    """Return a text without logins in URIs, and without values after words such as `password=`."""
    return _ASSIGNED.sub(_hide_value, _URI.sub(_hide_uri, text))


def remove_login(uri: str) -> str:
    """Return a URI without login and parameters."""
    return _URI.sub(lambda match: f"{match[1]}://{_split_uri(match)[1]}", uri)


def hide(text: str) -> str:
    """Return a piece of a script, such as a comment, without the values of options that may be secret."""
    text = _HINT.sub(_hide_hint, text)
    text = _PAIR.sub(lambda match: _hide_found(match, match[1], f"'{match[1]}'{match[2]}", f"'{HIDDEN}'"), text)
    text = _SETTING.sub(lambda match: _hide_found(match, match[2], "".join(match.groups()[:3]), HIDDEN), text)
    return hide_logins(text)


def hide_in_statement(statement: FlinkStatement) -> str:
    """Return the text of a statement with `***` for the values of options that are not harmless."""
    text, first = statement.text, statement.tokens[0].start
    rest = len(text) + first  # everything after it is done
    for start, end in sorted(_find_secret_places(statement), reverse=True, key=lambda span: (span[1], -span[0])):
        if end <= rest:  # else it lies inside another place
            text, rest = f"{text[: start - first]}'{HIDDEN}'{text[end - first :]}", start
    return hide(text)


def _hide_found(match: re.Match[str], key: str, kept: str, hidden: str) -> str:
    return match[0] if is_harmless(key) else kept + hidden


def _hide_hint(match: re.Match[str]) -> str:
    pairs = list(_PAIR.finditer(match[1]))
    rest = re.fullmatch(r"\s*(\w*)([\s(,)]*)", _PAIR.sub("", match[1]))
    if rest and all(is_harmless(pair[1]) for pair in pairs):
        return match[0]
    name = re.match(r"\s*\w*", match[1])
    return f"/*+{name[0] if name else ''}({HIDDEN}) */"


def _hide_value(match: re.Match[str]) -> str:
    quote = match[2][0] if match[2][0] in "'\"" else ""
    return f"{match[1]}{quote}{HIDDEN}{quote}"


def _split_uri(match: re.Match[str]) -> tuple[str, str, str]:
    """Return login, place and parameters of a URI."""
    login, _, rest = match[2].rpartition("@")
    if match[1].lower() in _WITHOUT_LOGIN and ":" not in login:
        login, rest = "", match[2]
    host, _, parameters = rest.partition("?")
    return login, host, parameters


def _hide_uri(match: re.Match[str]) -> str:
    login, host, parameters = _split_uri(match)
    return f"{match[1]}://{f'{HIDDEN}@' if login else ''}{host}{f'?{HIDDEN}' if parameters else ''}"


def _find_secret_places(statement: FlinkStatement) -> Iterator[tuple[int, int]]:
    """Yield where values begin and end that may be secret: of settings, in lists of options, and after other texts."""
    tokens = statement.tokens
    if statement.words[0] in ("SET", "RESET"):
        index = next((n for n, token in enumerate(tokens) if token.token_type is TokenType.EQ), 1)
        if index + 1 < len(tokens) and not is_harmless(_join(tokens[1:index])):
            yield tokens[index + 1].start, tokens[0].start + len(statement.text)
        return
    for options in _find_option_lists(statement):
        for part in split_list(options):
            index = next((n for n, token in enumerate(part) if token.token_type is TokenType.EQ), len(part))
            key, value = part[:index], part[index + 1 :]
            is_malformed_key = (len(key) > 1 or key == part) and any(token.token_type in TEXTS for token in key)
            if is_malformed_key:
                value = part  # any of its texts may be a value
            elif len(value) == 1 and is_harmless(_join(key)):
                continue
            if value:
                yield value[0].start, value[-1].end + 1
    for text, sign, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if text.token_type in TEXTS and sign.token_type is TokenType.EQ and not is_harmless(text.text):
            yield after.start, after.end + 1


def _join(tokens: Sequence[Token]) -> str:
    return "".join(token.text for token in tokens)


def _find_option_lists(statement: FlinkStatement) -> Iterator[tuple[Token, ...]]:
    """Yield the tokens in the parentheses of WITH, OPTIONS, SET and PROPERTIES."""
    for place, word in enumerate(statement.words, 1):
        if word in ("WITH", "OPTIONS", "SET", "PROPERTIES"):
            try:
                yield Cursor(statement, place).brackets()
            except InvalidScriptError:  # they are not closed
                yield statement.tokens[place + 1 :]
