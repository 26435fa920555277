"""Find what depends on the time zone of the session, and where windows begin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from sqlglot import exp

from ..report import Findings
from .inference import LOCAL, NULL, TEXT, ZONED, infer

NOT_IN_UTC = (
    "Event time of type TIMESTAMP is read in the zone of the session, and windows begin at whole hours and days of "
    "UTC: set the zone to UTC, or give window() a start"
)
_UTC = frozenset(("UTC", "GMT", "Z", "ZULU", "UCT", "UNIVERSAL", "GREENWICH"))
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_YEARS = range(2000, 2038)
_PARTS = frozenset("YEAR QUARTER MONTH WEEK DAYOFYEAR DAYOFMONTH DAYOFWEEK HOUR MINUTE SECOND DATE_FORMAT".split())
"""Functions of a point in time that need a zone, unless it is a TIMESTAMP, which has none."""
_ALWAYS = frozenset("CURRENT_DATE LOCALTIMESTAMP LOCALTIME CURRENT_TIME FROM_UNIXTIME".split())
_SECONDS = {"WEEK": 604_800, "DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}


@dataclass(frozen=True)
class Zone:
    """The time zone of the session. Without a name it is the machine's, in both Flink and Spark."""

    name: str | None = None
    chosen: bool = False
    """Whether the translation has set the zone because the script does not set Flink's."""

    @property
    def flink(self) -> str | None:
        """Return the zone that Flink had; None if it is unknown."""
        return None if self.chosen else self.name

    @property
    def is_utc(self) -> bool:
        return self.name is not None and _find_fixed_offset(self.name) == timedelta()

    def is_aligned_with_utc(self, lengths: Sequence[timedelta | None]) -> bool:
        """Return whether windows of these lengths begin in Flink's zone when they begin in UTC."""
        offset = _find_fixed_offset(self.flink) if self.flink is not None else None
        if offset is None:  # clocks may change; a window of any length is longer in the hour that comes twice
            return False
        return not offset or all(length and not offset % length for length in lengths)


def _find_fixed_offset(name: str) -> timedelta | None:
    """Return the offset of a zone whose offset never changes, else None."""
    plain = name.strip().upper().removeprefix("ETC/")
    if plain in _UTC:
        return timedelta()
    if match := _OFFSET.fullmatch(name.strip().upper()):
        length = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return length if match[1] == "+" else -length
    try:
        zone = ZoneInfo(name.strip())
    except (KeyError, ValueError, OSError):
        return None
    offsets = {
        datetime(year, month, 1, tzinfo=UTC).astimezone(zone).utcoffset() for year in _YEARS for month in range(1, 13)
    }
    return offsets.pop() if len(offsets) == 1 else None


def measure_interval(interval: exp.Expr) -> timedelta | None:
    """Return the length of an INTERVAL literal of a single unit; None for any other."""
    unit = interval.args.get("unit")
    length = _SECONDS.get(unit.name.upper().rstrip("S")) if isinstance(unit, exp.Var) else None
    if length is None or not re.fullmatch(r"\d+(\.\d+)?", interval.this.name):
        return None
    return timedelta(seconds=float(interval.this.name) * length)


def check_window(kind: str, column: exp.Expr, intervals: Sequence[exp.Expr], zone: Zone, findings: Findings) -> None:
    """Add a finding if windows of a TIMESTAMP_LTZ begin at other times than in Flink. Sessions begin with an event."""
    if (
        kind == "SESSION"
        or infer(column) == LOCAL
        or zone.is_aligned_with_utc([measure_interval(interval) for interval in intervals[:1]])
    ):
        return
    condition = "" if infer(column) == ZONED else ", if it is a TIMESTAMP_LTZ"
    findings.check(
        f"{kind} of {column.name}{condition}: Flink's windows begin by the clock of 'table.local-time-zone' "
        f"({zone.flink or 'not set in the script'}), Spark's by the clock of UTC. If Flink's was UTC, begin the script "
        "with SET 'table.local-time-zone' = 'UTC'; else give window() a start, such as window(ts, '1 DAY', '1 DAY', "
        "'16 HOURS') for UTC+8"
    )


def check_zone(node: exp.Expr, zone: Zone, findings: Findings) -> None:
    """Add a finding if a value depends on the zone of the session and the translation has set the zone."""
    if zone.chosen and (what := _find_zone_dependence(node)) is not None:
        report_zone_dependence(what, findings)


def report_zone_dependence(what: str, findings: Findings) -> None:
    """Add a finding that something depends on the zone that the translation has set."""
    findings.check(
        f"{what} depends on the zone of the session: this script sets it to UTC for event time, but Flink used the "
        "machine's zone. Begin the script with SET 'table.local-time-zone' = 'UTC' if that zone was UTC"
    )


def _find_zone_dependence(node: exp.Expr) -> str | None:
    if isinstance(node, exp.Cast):
        source, target = infer(node.this), infer(node)
        if ZONED in (source, target) and source not in (target, NULL):
            return "A CAST from or to TIMESTAMP_LTZ"
        if source is None and target in ("DATE", "TIME", LOCAL):
            return f"A CAST to {target}, if it is one of TIMESTAMP_LTZ,"
        return None
    if isinstance(node, exp.CurrentDate | exp.CurrentTime | exp.Localtimestamp):
        return node.sql_name()
    name = node.name.upper()
    if isinstance(node, exp.Column):
        return name if name in ("LOCALTIMESTAMP", "LOCALTIME") and not node.args.get("table") else None
    if isinstance(node, exp.Extract) or (isinstance(node, exp.Floor | exp.Ceil) and node.args.get("to")):
        time = node.expression if isinstance(node, exp.Extract) else node.this
        return f"{node.sql_name()} of a TIMESTAMP_LTZ" if infer(time) in (ZONED, None) else None
    if isinstance(node, exp.Binary | exp.Between) and isinstance(node, exp.Predicate):
        sides = {infer(side) for side in node.iter_expressions()}
        mixed = ZONED in sides and sides & {LOCAL, "DATE", *TEXT}
        return "A comparison with a TIMESTAMP_LTZ" if mixed else None
    if not isinstance(node, exp.Anonymous):
        return None
    if name in _PARTS:
        zoned = bool(node.expressions) and infer(node.expressions[0]) in (ZONED, None)
        return f"{name} of a TIMESTAMP_LTZ" if zoned else None
    return name if name in _ALWAYS or (name == "UNIX_TIMESTAMP" and node.expressions) else None
