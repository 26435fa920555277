"""The range of changes that `format("pravega")` with the option `changes` reads, as its options give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pyspark_pravega.datasource.tables.change_range import TIMESTAMP, VERSION, ChangeRange
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError, shorten
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.option_types import BOOLEAN, OptionType
from pyspark_pravega.sql.option_types import TIMESTAMP as MOMENT

from .changes import SPARKS, without_sparks

T = TypeVar("T")


def read_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a read that are for this package, without the bounds of changes if changes are read.

    Raises InvalidOptionError for one that is nearly a bound, and for a bound where no changes are read.
    """
    asked = (text for key, text in options.items() if o.find_option(key) is o.CHANGES)
    if any(text.strip().lower() == "true" for text in asked):
        return without_sparks(options)
    for key in options:
        if key.lower() in SPARKS:
            raise InvalidOptionError(f"'{key}' is an option of changes. Add 'changes'='true', or leave it out.")
    return options


def change_range(options: Mapping[str, str]) -> ChangeRange:
    """Read what Spark reads itself for `spark.read.changes`; without bounds the range has all changes.

    Raises InvalidOptionError for a wrong value and for bounds of two kinds, and UnsupportedOperationError for net
    changes, which Spark makes of the changes of a table in a catalog.
    """
    given = {SPARKS[key.lower()]: text.strip() for key, text in options.items() if key.lower() in SPARKS}
    mode = given.get("deduplicationMode", "none")
    if mode.lower() == "netchanges":
        raise UnsupportedOperationError(
            "'deduplicationMode'='netChanges' is not possible by options: Spark makes net changes of a table in a "
            "catalog, from Spark 4.2 on. Use spark.read.changes('<catalog>.<namespace>.<table>')."
        )
    if mode.lower() not in ("none", "dropcarryovers"):
        raise InvalidOptionError(f"'deduplicationMode'='{shorten(mode)}': expected none or dropCarryovers.")
    _value("computeUpdates", given, BOOLEAN)
    if len({key.removeprefix("starting").removeprefix("ending") for key in given} & {"Version", "Timestamp"}) > 1:
        raise InvalidOptionError("The bounds of changes are two versions or two timestamps. Give those of one kind.")
    inclusive = (_value(f"{bound}BoundInclusive", given, BOOLEAN) for bound in ("starting", "ending"))
    start_inclusive, end_inclusive = (True if value is None else value for value in inclusive)
    times = [_value(f"{bound}Timestamp", given, MOMENT) for bound in ("starting", "ending")]
    if any(times):
        start, end = (None if time is None else str(round(time.timestamp() * 1_000_000)) for time in times)
        return ChangeRange(TIMESTAMP, start, end, start_inclusive, end_inclusive)
    versions = given.get("startingVersion"), given.get("endingVersion")
    return ChangeRange(VERSION, *versions, start_inclusive, end_inclusive)


def _value(key: str, given: Mapping[str, str], type: OptionType[T]) -> T | None:
    text = given.get(key)
    if text is None:
        return None
    try:
        return type.parse(text)
    except ValueError as error:
        raise InvalidOptionError(f"'{key}'='{shorten(text)}': {error}.") from None
