"""Translate settings of Flink's SQL client into settings of a script."""

from __future__ import annotations

from .report import Findings
from .secrets import hide_logins
from .table_options import parse_milliseconds
from .tables import quote_text

_OF_THE_ENGINE = (
    "execution.checkpointing.",
    "execution.attached",
    "execution.target",
    "heartbeat.",
    "jobmanager.",
    "pipeline.",
    "rest.",
    "restart-strategy",
    "sql-client.",
    "state.backend",
    "state.savepoints.",
    "table.dml-sync",
    "table.dynamic-table-options.enabled",
    "table.exec.async-",
    "table.exec.mini-batch.",
    "table.exec.resource.",
    "table.optimizer.",
    "taskmanager.",
)
"""Keys that say how Flink works, not what a job means."""
CHECKPOINT_DIRECTORIES = ("execution.checkpointing.dir", "state.checkpoints.dir")


def translate_setting(key: str, value: str, findings: Findings) -> str | None:
    """Return the SET for a setting; None, with a finding, for one that has no equivalent."""
    if key == "execution.checkpointing.interval" and (length := parse_milliseconds(value)) is not None:
        findings.note("Rows become visible with each micro-batch, as they did in Flink with each checkpoint")
        return f"SET pravega.stream.trigger = {quote_text(f'{length} ms')}"
    if key in CHECKPOINT_DIRECTORIES:
        if hide_logins(value) != value:
            findings.check(
                f"'{key}' contains a login, which is not copied: write SET pravega.stream.checkpoint without it"
            )
            return None
        findings.note("Flink's checkpoints cannot be read: the job starts where its scan options say")
        return f"SET pravega.stream.checkpoint = {quote_text(value)}"
    if key == "table.local-time-zone":
        return f"SET spark.sql.session.timeZone = {value}"
    if key == "parallelism.default":
        return f"SET spark.sql.shuffle.partitions = {value}"
    if key.startswith(_OF_THE_ENGINE):
        findings.note(f"'{key}' is left out: it says how Flink works, not what the job means")
    else:
        findings.check(f"The setting '{key}' is not known, and was left out")
    return None
