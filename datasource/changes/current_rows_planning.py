"""Plans scans of the current rows of a table of changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql import options as o

from ..scan.bad_events import PERMISSIVE, BadEventRule, bad_event_rule
from ..scan.event_planning import choose_columns, measure_scan, nullable
from ..scan.planned_scan import PlannedScan
from ..tables.stream_table import StreamTable
from .current_rows_reader import CurrentRowsReader
from .group_planning import check_whole, group_partitions, group_plan, groups_of_keys
from .truncation_search import Search, Unsearched, truncations_in


def plan_current_rows(
    pravega: Pravega,
    table: StreamTable,
    required: StructType,
    options: o.Options,
    rule: BadEventRule,
    *,
    limit: int | None,
    tail: Mapping[int, int] | None,
    search: Search,
    counted: bool,
) -> PlannedScan:
    """Fix how the current rows are read, now, or up to the tail of an earlier scan.

    `required` are the columns that Spark needs. With `counted` the tasks tell what they count. Raises
    InvalidOptionError when a start is given, and MalformedEventError when a truncation cannot be read.
    """
    slices = measure_scan(pravega, table, options, tail)
    schema, columns = choose_columns(table, required, rule)
    output = schema if required.fields else nullable(schema)
    check_whole(options, "current rows")
    plan = replace(group_plan(pravega, table, output, columns, options, rule), limit=limit, counted=counted)
    groups = groups_of_keys(pravega, table, slices)
    if len(groups) > 1:
        truncations = truncations_in(pravega, plan, slices, search)
        if isinstance(truncations, Unsearched):
            return PlannedScan.unfinished(output, slices, truncations.reader)
        for each in truncations:
            plan.clearings.add(each)
    reader = CurrentRowsReader(plan, group_partitions(pravega, table, groups))
    return PlannedScan.of(reader, output, plan.output, slices)


def rule_for_rows(table: StreamTable, options: o.Options) -> BadEventRule:
    """Read what becomes of bad events among the changes of rows.

    A change that is left out may make its row wrong, so that defaults of a catalog do not count. Raises
    InvalidOptionError for `permissive`.
    """
    given = [options.source(option) for option in (o.MODE, o.DEAD_LETTER)]
    if not {o.Source.DEFAULT, o.Source.CATALOG}.issuperset(given):
        rule = bad_event_rule(options, table.stream)
        if rule.mode != PERMISSIVE:
            return rule
        raise InvalidOptionError(
            f"'{o.MODE.key}'='{PERMISSIVE}' is not possible for the rows of stream {table.stream}: an event that "
            f"cannot be decoded is no row. Leave it out, set '{o.MODE.key}' to 'dropmalformed', or read the changelog."
        )
    return BadEventRule()
