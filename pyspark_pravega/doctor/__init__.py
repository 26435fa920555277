"""`pyspark-pravega doctor`: looks at everything that must fit together, and says what to do where it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .check_result import CheckResult
from .machine import check_machine
from .servers import check_servers, greet

__all__ = ["CheckResult", "examine", "greet", "summarize"]


def examine(settings: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Look at everything; one finding after another, as the slow ones take seconds.

    `settings` are options of a catalog's conf, which count before the environment.
    """
    yield from check_machine(environment)
    yield from check_servers(settings, environment)


def summarize(findings: Sequence[CheckResult]) -> str:
    """Say in one sentence what the findings come to."""
    wrong = sum(not finding.good for finding in findings)
    unsure = sum(finding.good and not finding.sure for finding in findings)
    if wrong:
        return f"{wrong} problem{'s' * (wrong > 1)} to fix."
    if unsure:
        return f"No problem was found, but {unsure} thing{'s' * (unsure > 1)} could not be tried."
    return "All is well."
