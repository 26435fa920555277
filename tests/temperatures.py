"""The hourly temperatures in plain Python: what the SQL results must equal, computed without Spark."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

CSV = Path(__file__).parent.parent / "examples" / "hourly_temperatures.csv"


@dataclass(frozen=True)
class Reading:
    """One row of the file."""

    timestamp: datetime
    sensor: int
    location: str
    temp: float


def readings() -> list[Reading]:
    """All rows, in the order of the file."""
    with CSV.open(newline="", encoding="utf-8") as file:
        return [
            Reading(
                datetime.fromisoformat(row["timestamp"]).astimezone(UTC),
                int(row["sensorId"]),
                row["location"],
                float(row["temp"]),
            )
            for row in csv.DictReader(file)
        ]


def by_location_and_day() -> dict[tuple[str, str], tuple[float, float, int]]:
    """Least and greatest temperature and number of readings by location and day (UTC)."""
    return {key: (min(temps), max(temps), len(temps)) for key, temps in _temps_by_location_and_day().items()}


def mean_by_location_and_day() -> dict[tuple[str, str], Fraction]:
    """The mean temperature by location and day (UTC), exact for the decimal numbers of the file."""
    groups = _temps_by_location_and_day()
    return {key: sum((Fraction(str(temp)) for temp in temps), Fraction()) / len(temps) for key, temps in groups.items()}


def _temps_by_location_and_day() -> dict[tuple[str, str], list[float]]:
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for reading in readings():
        groups[(reading.location, reading.timestamp.date().isoformat())].append(reading.temp)
    return groups
