"""Describe what the doctor finds, one check at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    `good`: it works as far as it could be tried. `sure`: there was something to try; a good result that is not sure is
    shown as a warning. `advice`: what to do when it is not both.
    """

    subject: str
    good: bool
    text: str
    advice: str = ""
    sure: bool = True
