"""Report on a translation: findings, each with its line, and the resulting exit code."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from .secrets import hide_logins


class Severity(Enum):
    """How much a finding matters. The value is the word in the script and in the summary."""

    NOTE = "note"
    """The same meaning in another form, or a setting without a meaning here."""
    CHECK = "CHECK"
    """Translated, but the meaning differs or is unknown."""
    UNTRANSLATED = "NOT TRANSLATED"
    """Left as a comment."""


ALL_TRANSLATED = 0
"""Exit code: every statement has kept its meaning."""
INCOMPLETE = 3
"""Exit code: there are findings of severity CHECK or UNTRANSLATED."""


@dataclass(frozen=True)
class Finding:
    """One thing to know about a translated statement, which begins at `line` of the Flink script, counted from 1."""

    severity: Severity
    line: int
    text: str


class Untranslatable(Exception):
    """A statement has no equivalent; the message says why and what to do instead."""


@dataclass
class Findings:
    """The findings of one statement, in the order in which they were made, each text once."""

    line: int
    found: list[Finding] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a remark that changes nothing."""
        self._add(Severity.NOTE, text)

    def check(self, text: str) -> None:
        """Add a difference that somebody has to look at."""
        self._add(Severity.CHECK, text)

    def note_untranslated(self, text: str) -> None:
        """Add that the statement, or a part of it, is now a comment."""
        self._add(Severity.UNTRANSLATED, text)

    def _add(self, severity: Severity, text: str) -> None:
        text = hide_logins(text)
        finding = Finding(severity, self.line, text if text.endswith((".", "?")) else f"{text}.")
        if finding not in self.found:
            self.found.append(finding)
