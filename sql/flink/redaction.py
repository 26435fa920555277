"""The text of a statement without the values of its options, but for those that are harmless."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import Token, TokenType

from .secrets import HIDDEN, hide, is_harmless
from .statements import TEXTS, FlinkStatement


def without_secrets(statement: FlinkStatement) -> str:
    """Return the text of a statement with `***` for the values of options that are not harmless."""
    text, first = statement.text, statement.tokens[0].start
    rest = len(text) + first  # behind it, all is done
    for start, end in sorted(_hidden_places(statement), reverse=True, key=lambda place: (place[1], -place[0])):
        if end <= rest:  # else it is inside of another one
            text, rest = f"{text[: start - first]}'{HIDDEN}'{text[end - first :]}", start
    return hide(text)


def _hidden_places(statement: FlinkStatement) -> Iterator[tuple[int, int]]:
    tokens = statement.tokens
    if statement.words[0] in ("SET", "RESET"):
        place = next((n for n, token in enumerate(tokens) if token.token_type is TokenType.EQ), 1)
        key = "".join(token.text for token in tokens[1:place])
        if place + 1 < len(tokens) and not is_harmless(key):
            yield tokens[place + 1].start, tokens[0].start + len(statement.text)
        return
    lists = list(_option_lists(statement))
    for place, token in enumerate(tokens):
        if token.token_type is not TokenType.EQ:
            beside = [each.token_type for each in tokens[max(place - 1, 0) : place + 2]]
            if token.token_type in TEXTS and TokenType.EQ not in beside and any(place in each for each in lists):
                yield token.start, token.end + 1
            continue
        if place in (0, len(tokens) - 1):
            continue
        inside = next((each for each in lists if place in each), None)
        if tokens[place - 1].token_type in TEXTS:
            key = tokens[place - 1].text
        elif inside is not None:
            key = _key(tokens, place, inside)
        else:
            continue
        if not is_harmless(key):
            end = _end(tokens, place + 1, inside.stop if inside else place + 2)
            yield tokens[place + 1].start, tokens[end - 1].end + 1


def _option_lists(statement: FlinkStatement) -> Iterator[range]:
    """Yield the places of the tokens in the parentheses of WITH, OPTIONS, SET and PROPERTIES."""
    begun: list[int] = []
    for place, token in enumerate(statement.tokens):
        if token.token_type is TokenType.L_PAREN:
            begun.append(place)
        elif token.token_type is TokenType.R_PAREN and begun:
            opening = begun.pop()
            if opening and statement.words[opening - 1] in ("WITH", "OPTIONS", "SET", "PROPERTIES"):
                yield range(opening + 1, place)
    for opening in begun:  # one that is not closed
        if opening and statement.words[opening - 1] in ("WITH", "OPTIONS", "SET", "PROPERTIES"):
            yield range(opening + 1, len(statement.tokens))


def _key(tokens: Sequence[Token], place: int, inside: range) -> str:
    begin = place
    while begin > inside.start and tokens[begin - 1].token_type is not TokenType.COMMA:
        begin -= 1
    return "".join(token.text for token in tokens[begin:place])


def _end(tokens: Sequence[Token], begin: int, stop: int) -> int:
    """Return the place behind a value: at a comma, at the key of the next option, or at the end of the list."""
    end = begin + 1
    while end < stop and tokens[end].token_type is not TokenType.COMMA:
        if end + 1 < stop and tokens[end + 1].token_type is TokenType.EQ:
            break
        end += 1
    return end
