"""`pyspark-pravega doctor`: check everything that must fit together, and say how to fix what does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark_pravega.errors import format_count

from .check_result import CheckResult
from .machine_checks import check_machine
from .server_checks import check_servers, greet

__all__ = ["CheckResult", "examine", "greet", "summarize"]


def examine(settings: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check everything. Yields one result after another, because slow checks take seconds.

    `settings` are options of a catalog's conf, which override the environment.
    """
    yield from check_machine(environment)
    yield from check_servers(settings, environment)


def summarize(findings: Sequence[CheckResult]) -> str:
    """Summarize the results in one sentence."""
    wrong = sum(not finding.good for finding in findings)
    unsure = sum(finding.good and not finding.sure for finding in findings)
    if wrong:
        return f"{format_count(wrong, 'problem')} to fix."
    if unsure:
        return f"No problem was found, but {format_count(unsure, 'thing')} could not be tried."
    return "All is well."
