"""Keep logins and passwords of a Flink script out of everything that is written.

Nothing guesses which options are secret: only values of options that are known to be harmless are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import Token, TokenType

from .statements import TEXTS, FlinkStatement

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
    tokens = statement.tokens
    if statement.words[0] in ("SET", "RESET"):
        index = next((n for n, token in enumerate(tokens) if token.token_type is TokenType.EQ), 1)
        key = "".join(token.text for token in tokens[1:index])
        if index + 1 < len(tokens) and not is_harmless(key):
            yield tokens[index + 1].start, tokens[0].start + len(statement.text)
        return
    lists = _find_option_lists(statement)
    for index, token in enumerate(tokens):
        if token.token_type is not TokenType.EQ:
            beside = [neighbour.token_type for neighbour in tokens[max(index - 1, 0) : index + 2]]
            if token.token_type in TEXTS and TokenType.EQ not in beside and any(index in places for places in lists):
                yield token.start, token.end + 1
            continue
        if index in (0, len(tokens) - 1):
            continue
        inside = next((places for places in lists if index in places), None)
        if tokens[index - 1].token_type in TEXTS:
            key = tokens[index - 1].text
        elif inside is not None:
            key = _read_key(tokens, index, inside)
        else:
            continue
        if not is_harmless(key):
            end = _find_end(tokens, index + 1, inside.stop if inside else index + 2)
            yield tokens[index + 1].start, tokens[end - 1].end + 1


def _find_option_lists(statement: FlinkStatement) -> list[range]:
    """Return the places of the tokens in the parentheses of WITH, OPTIONS, SET and PROPERTIES."""
    begun: list[int] = []
    lists: list[range] = []
    for index, token in enumerate(statement.tokens):
        if token.token_type is TokenType.L_PAREN:
            begun.append(index + 1)
        elif token.token_type is TokenType.R_PAREN and begun:
            lists.append(range(begun.pop(), index))
    lists += [range(start, len(statement.tokens)) for start in begun]  # those that are not closed
    words = ("", *statement.words)
    return [places for places in lists if words[places.start - 1] in ("WITH", "OPTIONS", "SET", "PROPERTIES")]


def _read_key(tokens: Sequence[Token], index: int, inside: range) -> str:
    begin = index
    while begin > inside.start and tokens[begin - 1].token_type is not TokenType.COMMA:
        begin -= 1
    return "".join(token.text for token in tokens[begin:index])


def _find_end(tokens: Sequence[Token], begin: int, stop: int) -> int:
    """Return the place after a value: at a comma, at the key of the next option, or at the end of the list."""
    end = begin + 1
    while end < stop and tokens[end].token_type is not TokenType.COMMA:
        if end + 1 < stop and tokens[end + 1].token_type is TokenType.EQ:
            break
        end += 1
    return end
