"""Generated queries: conditions, groups, aggregates, limits and projections of a table, and smaller ones like them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

from tests.catalog.queries.generated_columns import Column
from tests.catalog.queries.generated_conditions import FLOATING, NUMBERS, WHOLE, Conditions
from tests.catalog.queries.generated_tables import Table

ROWS = "{rows}"
"""Stands for the table in the text of a query."""
NESTED = {
    "a": ("get(a, 0)", "size(a)", "a IS NULL", "get(a, 1)"),
    "s": ("s.x", "s.y", "s IS NULL", "s.x + 1L"),
    "m": ("m['k1']", "size(m)", "map_keys(m)", "m IS NULL"),
}
"""Expressions of nested columns; none raises an error."""
NESTED_KEYS = ("s.x", "s.y")
NESTED_FUNCTIONS = ("count(s.x)", "max(s.y)", "min(s.x)", "sum(s.x)", "count(s)")
FAILING_ITEMS = {
    "i": ("i + 2147483647", "10 / i", "-i", "element_at(array(1, 2), 1 + abs(i % 4))", "10 % i"),
    "y": ("CAST(y * y * y AS TINYINT)", "-y"),
    "l": ("CAST(l AS INT)", "l + 1L", "l * l"),
    "t": ("CAST(t AS INT)", "CAST(t AS DATE)", "CAST(t AS DOUBLE)"),
    "d": ("CAST(d AS INT)", "CAST(d AS DECIMAL(5, 2))"),
    "a": ("a[2]", "element_at(a, 4)"),
    "q": ("CAST(q AS DECIMAL(20, 0))",),
    "dt": ("make_date(year(dt), 2, 29)",),
}
"""What is an error for some row in ANSI mode, and null or wrapped else."""
FAILING_SUMS = {"l": ("sum(l)", "sum(l * 2)"), "q": ("sum(q)", "avg(q)"), "i": ("sum(1 / i)",)}
"""Whether they fail depends on the order of the rows."""


@dataclass(frozen=True)
class Query:
    """A query by its parts."""

    table: str
    select: tuple[str, ...]
    where: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    having: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    distinct: bool = False
    limit: int | None = None
    rows: str = ROWS
    """The table itself, or a subquery of its columns."""
    joined: tuple[str, ...] = ()
    """What it is joined with."""
    ansi: bool = True
    failing: bool = False
    """It may be an error, and so is asked for alone."""

    @property
    def any_rows(self) -> bool:
        """Any so many of the rows are right."""
        return self.limit is not None and not self.order

    def text(self, rows: str) -> str:
        """The query of a table or view."""
        named = [f"{text} AS c{place}" for place, text in enumerate((*self.groups, *self.select))]
        parts = [f"SELECT {'DISTINCT ' if self.distinct else ''}{', '.join(named)} FROM {self.rows}"]
        parts += self.joined
        parts += [f"WHERE {' AND '.join(self.where)}"] * bool(self.where)
        parts += [f"GROUP BY {', '.join(self.groups)}"] * bool(self.groups)
        parts += [f"HAVING {' AND '.join(self.having)}"] * bool(self.having)
        parts += [f"ORDER BY {', '.join(self.order)}"] * bool(self.order)
        parts += [f"LIMIT {self.limit}"] * (self.limit is not None)
        return " ".join(parts).replace(ROWS, rows)

    def smaller(self) -> Iterator[Query]:
        """Queries that have one part less."""
        for field in fields(self):
            parts = getattr(self, field.name)
            if isinstance(parts, tuple):
                for place in range(len(parts)):
                    fewer = replace(self, **{field.name: (*parts[:place], *parts[place + 1 :])})  # type: ignore[arg-type]
                    if fewer.select or fewer.groups:
                        yield fewer


class Grammar:
    """Makes queries of a table."""

    def __init__(self, chance: random.Random, table: Table) -> None:
        self._chance, self._table, self._conditions = chance, table, Conditions(chance, table)
        self._all = (*table.columns, *table.hidden)
        self._flat = tuple(column for column in self._all if column.values)
        self._comparable = tuple(column for column in self._flat if column.name != "u" or table.sequential)
        self._named = {column.name: column for column in self._all}
        self._order = ", ".join(table.order)

    def query(self) -> Query:
        """Any query."""
        shapes: tuple[tuple[int, Callable[[], Query]], ...] = (
            (46, self._filtered),
            (20, self._aggregated),
            (8, self._grouped_after_filter),
            (4, self._distinct),
            (4, self._limited),
            (1, self._limited_after_filter),
            (4, self._top),
            (3, self._windowed),
            (3, self._compared_with_others),
            (4, self._joined_with_itself),
            (6, self._wrapping),
            (1, self._failing),
        )
        [shape] = self._chance.choices([shape for _, shape in shapes], [weight for weight, _ in shapes])
        return shape()

    def _pick(self, some: Sequence[str | Column]) -> str:
        one = self._chance.choice(some)
        return one.name if isinstance(one, Column) else one

    def _of(self, **select: object) -> Query:
        return Query(self._table.name, **select)  # type: ignore[arg-type]

    def _items(self, most: int = 4) -> tuple[str, ...]:
        return tuple(self._item() for _ in range(self._chance.randint(1, most)))

    def _item(self) -> str:
        column = self._chance.choice(self._all)
        if column.name in NESTED and self._chance.random() < 0.5:
            return self._pick(NESTED[column.name])
        if self._chance.random() < 0.7:
            return column.name
        return self._chance.choice(
            (
                f"coalesce({column.name}, {column.values[0]})" if column.values else f"{column.name} IS NULL",
                f"CAST({column.name} AS STRING)",
                f"CASE WHEN {self._conditions.comparison()} THEN {column.name} END",
                f"({self._conditions.comparison()})",
                f"hash({column.name})" if column.name != "m" else "m",
            )
        )

    def _keys(self) -> tuple[str, ...]:
        names = [column.name for column in self._comparable if column.name not in ("x", "q", "z")]
        few = [name for name in ("k", "b", "y", "u", "dt", "_segment", "_error") if name in names]
        keys = self._chance.sample(
            names if self._chance.random() < 0.5 else few, self._chance.choice((1, 1, 1, 2, 3)) % (len(few) + 1)
        )
        if self._chance.random() < 0.1:
            keys.append("i % 10")
        if self._chance.random() < 0.05:
            keys.append(f"CASE WHEN {self._conditions.comparison()} THEN 'x' WHEN b THEN 'y' END")
        if "s" in self._named and self._chance.random() < 0.05:
            keys.append(self._pick(NESTED_KEYS))
        if not self._table.sequential:
            keys = [key for key in keys if key != "d"]
        return tuple(keys or ["k"])

    def _function(self) -> str:
        column = self._chance.choice(self._all)
        name, ordered = column.name, column.values or column.name == "id"
        sequential = self._table.sequential
        exact = column.type in WHOLE - {"BIGINT"} or name in ("id", "e", "p", "w", "_offset", "_commit_version")
        if name == "s" and self._chance.random() < 0.7:
            return self._pick(NESTED_FUNCTIONS)
        match self._chance.randrange(10):
            case 0 | 1:
                return self._chance.choice(("count(*)", "count(1)", "count(*)", "count(*) + 1"))
            case 2 | 3:
                return f"count({name})"
            case 4 | 5 if exact or (sequential and column.type in FLOATING):
                return f"{self._chance.choice(('sum', 'sum', 'avg'))}({name})"
            case 6 if name not in ("m", "u"):
                return self._chance.choice(
                    (
                        f"count(DISTINCT {name})",
                        f"count({name}) FILTER (WHERE {self._conditions.comparison()})",
                        f"max(CAST({name} AS STRING))",
                        f"count_if({name} IS NULL)",
                        f"sum(CASE WHEN {self._conditions.comparison()} THEN 1 ELSE k END)",
                    )
                )
            case 7 if sequential and column.type in NUMBERS:
                return self._chance.choice(
                    (f"stddev({name})", f"try_sum({name})", f"avg({name})", f"sum(DISTINCT {name})")
                )
        if not ordered or name == "u" or (not sequential and name == "d"):
            return f"count({name})"
        return f"{self._chance.choice(('min', 'max'))}({name})"

    def _functions(self) -> tuple[str, ...]:
        return tuple(self._function() for _ in range(self._chance.randint(1, 4)))

    def _filtered(self) -> Query:
        return self._of(select=self._items(), where=self._conditions.some())

    def _aggregated(self) -> Query:
        groups = self._keys() if self._chance.random() < 0.65 else ()
        having = (self._having(),) if groups and self._chance.random() < 0.15 else ()
        return self._of(select=self._functions(), groups=groups, having=having)

    def _having(self) -> str:
        some = self._chance.choice(self._all).name
        return self._chance.choice(
            (
                "count(*) > 5",
                f"count({some}) > 2",
                "min(i) < 0",
                "max(id) % 2 = 0 OR count(i) IS NULL",
                "NOT (min(b) <=> max(b))",
                "max(t) LIKE 'a%'",
            )
        )

    def _grouped_after_filter(self) -> Query:
        return replace(self._aggregated(), where=self._conditions.some())

    def _distinct(self) -> Query:
        return self._of(select=self._keys(), distinct=True)

    def _limited(self) -> Query:
        return self._of(select=self._items(), limit=self._chance.choice((0, 1, 3, 10, 199, 1000)))

    def _limited_after_filter(self) -> Query:
        return replace(self._limited(), where=self._conditions.some())

    def _top(self) -> Query:
        keys = self._chance.sample([column.name for column in self._comparable], 2)
        order = tuple(f"{key} {self._chance.choice(('ASC', 'DESC NULLS LAST', 'DESC', 'NULLS LAST'))}" for key in keys)
        where = self._conditions.some() if self._chance.random() < 0.5 else ()
        return self._of(
            select=self._items(),
            where=where,
            order=(*order, *self._table.order),
            limit=self._chance.choice((1, 5, 50)),
        )

    def _windowed(self) -> Query:
        window = f"(PARTITION BY {self._pick(('k', 'b', 'i'))} ORDER BY {self._order})"
        function = self._pick(("row_number()", "lag(t)", "count(*)", "max(i)", "last(dt)"))
        return self._of(select=(f"{function} OVER {window}", *self._items(2)), where=self._conditions.some())

    def _compared_with_others(self) -> Query:
        """Conditions on what other rows of the table have."""
        some, first = self._conditions.comparison(), self._table.order[0]
        condition = self._chance.choice(
            (
                f"i = (SELECT max(i) FROM {ROWS})",
                f"id IN (SELECT max(id) FROM {ROWS} WHERE {some} GROUP BY k)",
                f"k NOT IN (SELECT k FROM {ROWS} WHERE k IS NOT NULL AND {some})",
                f"EXISTS (SELECT 1 FROM {ROWS} WHERE {some} AND id < 9)",
                f"{first} > (SELECT min({first}) FROM {ROWS} WHERE {some})",
            )
        )
        return self._of(select=self._items(2), where=(condition, *self._conditions.some()[:1]))

    def _joined_with_itself(self) -> Query:
        kind = self._chance.choice(("", "", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"))
        by, other = self._pick(self._flat), self._pick(self._flat)
        right = f"(SELECT {by} AS j0, {other} AS j1, id AS j2 FROM {ROWS} WHERE {self._conditions.comparison()})"
        on = self._chance.choice(("id = j2", f"{by} = j0 AND id = j2", f"{by} <=> j0 AND id = j2 + 1"))
        select = self._items(2) if kind in ("LEFT SEMI", "LEFT ANTI") else ("j1", *self._items(2))
        where = self._conditions.some() if self._chance.random() < 0.7 else ()
        # Else the hidden columns of either side could be meant.
        left = f"(SELECT {', '.join(self._named)} FROM {ROWS})"
        return self._of(select=select, rows=left, joined=(f"{kind} JOIN {right} ON {on}".strip(),), where=where)

    def _wrapping(self) -> Query:
        """What may be an error in ANSI mode, in the other."""
        return replace(self._failing(), ansi=False, failing=False)

    def _failing(self) -> Query:
        names = [column.name for column in self._table.columns]
        sums = [text for name, texts in FAILING_SUMS.items() for text in texts if name in names]
        items = [text for name, texts in FAILING_ITEMS.items() for text in texts if name in names]
        if self._table.sequential and self._chance.random() < 0.4:
            groups = self._keys() if self._chance.random() < 0.5 else ()
            return self._of(select=(self._chance.choice(sums), *self._functions()), groups=groups, failing=True)
        item = self._chance.choice(items)
        if self._chance.random() < 0.5:
            return self._of(select=(item, *self._items(2)), where=self._conditions.some(), failing=True)
        conditions = list(self._conditions.some())
        conditions.insert(self._chance.randint(0, len(conditions)), f"({item}) IS NOT NULL")
        return self._of(select=self._items(2), where=tuple(conditions), failing=True)


def generated(seed: str, tables: list[Table], count: int) -> Iterator[Query]:
    """So many queries of tables, the same for the same seed."""
    chance = random.Random(seed)
    grammars = [Grammar(chance, table) for table in tables]
    for _ in range(count):
        [grammar] = chance.choices(grammars, [table.weight for table in tables])
        yield grammar.query()
