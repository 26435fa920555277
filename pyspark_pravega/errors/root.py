"""The root of all errors: a condition, a sentence of bounded length, a cure."""

from __future__ import annotations

import re
from typing import ClassVar

_LONGEST_MESSAGE = 8000
_LONGEST_WORD = 400
"""Longer words are names and values, whose ends are enough."""
_LONG_WORD = re.compile(rf"\S{{{_LONGEST_WORD + 1},}}")
_FIRST_WORD = re.compile(r"[a-z]+(?= )")
"""A word that is not a name or a key."""


def shorten(text: str, longest: int = 200) -> str:
    """Return a text without its middle if it has more than `longest` characters."""
    if len(text) <= longest:
        return text
    end = longest // 4
    return f"{text[: longest - end]}... ({len(text):,} characters) ...{text[-end:]}"


def format_count(number: int, noun: str) -> str:
    """Return a number of things as messages show it: `1 stream`, `2 streams`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def describe_os_error(error: OSError) -> str:
    """Return why the operating system refuses something, as messages show it: `permission denied`."""
    text = error.strerror or str(error) or type(error).__name__
    return text[0].lower() + text[1:]


class PravegaError(Exception):
    """An error without a condition of its own; the message says what went wrong."""

    condition: ClassVar[str] = "PRAVEGA_ERROR"
    """Stable, for programs to match; the text of a message may change between releases."""
    sql_state: ClassVar[str] = "KD000"
    """The SQLSTATE of the condition, one of those that Spark lists."""
    cure: ClassVar[str] = "Do what the message says."

    def __init_subclass__(cls, *, condition: str | None = None, sql_state: str | None = None) -> None:
        """Give a class its own condition; without one it shares that of its base."""
        cls.condition, cls.sql_state = condition or cls.condition, sql_state or cls.sql_state

    def __init__(self, message: str) -> None:
        # Nobody reads 100 kB, which would also end up in logs, plans and the web interface.
        self.message = shorten(_LONG_WORD.sub(lambda word: shorten(word[0]), message), _LONGEST_MESSAGE)
        super().__init__(self.message)

    @property
    def sentence(self) -> str:
        """Return the message as users see it: with a capital letter and a full stop.

        Messages of the client have neither, so that other messages can contain them.
        """
        text = self.message
        if _FIRST_WORD.match(text):
            text = text[0].upper() + text[1:]
        return text if text.endswith((".", "?", "!")) or not text else f"{text}."

    def for_user(self) -> str:
        """Return the condition and the sentence, as users see them on a terminal."""
        return f"[{self.condition}] {self.sentence}"

    def __str__(self) -> str:
        return f"[{self.condition}] {self.message}"
