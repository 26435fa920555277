"""Plans scans of the changes of the rows of a table of changes, with the database's positions as versions.

See `rows/history.py` for what is a change of a row.
"""

from __future__ import annotations

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.formats.changes.feed import key_columns
from pyspark_pravega.sql import options as o

from ..scan.bad_events import BadEventRule
from ..scan.event_planning import measure_slices, nullable
from ..scan.planned_scan import EarlierScan, PlannedScan
from ..scan.snapshot import up_to
from ..tables.change_range import Bounds
from ..tables.stream_table import StreamTable
from .group_planning import check_whole, group_partitions, group_plan, groups_of_keys
from .group_reader import GroupPlan
from .row_changes_reader import ChangesPlan, ChangesReader
from .truncation_search import Search, Unsearched, truncations_in


def plan_row_changes(
    pravega: Pravega,
    table: StreamTable,
    bounds: Bounds,
    required: StructType,
    options: o.Options,
    rule: BadEventRule,
    *,
    earlier: EarlierScan | None,
    search: Search,
) -> PlannedScan:
    """Fix what a scan of changes reads, now or as an earlier scan of the same changes did.

    Raises InvalidOptionError for options that do not fit the changes of rows.
    """
    plan = row_changes_plan(pravega, table, required, options, rule)
    slices = measure_slices(pravega, table, options, None, None)
    if earlier is not None:
        slices = up_to(slices, earlier.tail)
    groups = groups_of_keys(pravega, table, slices)
    keyed = bool(key_columns(table.settings))
    truncations = truncations_in(pravega, plan, slices, search) if len(slices) > 1 and keyed else None
    if isinstance(truncations, Unsearched):
        return PlannedScan.unfinished(plan.schema, slices, truncations.reader)
    reader = ChangesReader(ChangesPlan(plan, bounds, truncations), group_partitions(pravega, table, groups))
    return PlannedScan.of(reader, plan.schema, plan.output, slices)


def check_key_of_table(options: o.Options) -> None:
    """Raise InvalidOptionError when a query with CHANGES gives a primary key of its own."""
    if options.source(o.PRIMARY_KEY) is o.Source.QUERY:
        raise InvalidOptionError(f"'{o.PRIMARY_KEY.key}' cannot be given for CHANGES alone. Set the table property.")


def row_changes_plan(
    pravega: Pravega, table: StreamTable, required: StructType, options: o.Options, rule: BadEventRule
) -> GroupPlan:
    """Return how the changes of rows are read. Raises InvalidOptionError for options that do not fit them."""
    check_whole(options, "changes of its rows")
    columns = StructType([field for field in required if field.name in table.schema.names])
    schema = required if required.fields else nullable(StructType([table.schema.fields[0]]))
    return group_plan(pravega, table, schema, columns, options, rule)
