"""Generated conditions of queries, about columns and places of events."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.catalog.queries.generated_columns import Column
from tests.catalog.queries.generated_tables import Table

WHOLE = {"TINYINT", "SMALLINT", "INT", "BIGINT", "bigint", "int"}
FLOATING = {"FLOAT", "DOUBLE"}
NUMBERS = WHOLE | FLOATING
TEXTS = ("STRING", "string")
ORDERS = ("=", "<=>", "<>", "<", "<=", ">", ">=")
PATTERNS = (
    *("a%", "%a", "%a%", "😀%", "%ż%", "_%", "%", "", "a", "%\\\\%", "_", "%/0.%", "%.0"),
    *("ab\\\\%", "ab\\\\%%", "%\\\\%", "\\\\_%", "a_\\\\%", "%%a", "a%a%"),
)
"""Of LIKE, with escapes as they stand in SQL."""
OF_TEXTS = (
    "{} LIKE 'ab!%%' ESCAPE '!'",
    "{} LIKE '!_!%' ESCAPE '!'",
    "{} LIKE ANY ('a%', '%ż', '')",
    "{} LIKE ALL ('a%', '%')",
    "startswith({}, 'a')",
    "startswith({}, '')",
    "endswith({}, ' ')",
    "contains({}, '')",
    "contains({}, 'b%')",
    "{} ILIKE 'A%'",
    "{} RLIKE '^a'",
)
NESTED_CONDITIONS = {
    "a": ("get(a, 0) > 100", "array_contains(a, 7)", "size(a) = 3", "a IS NULL", "get(a, 1) IS NULL", "a = array(1)"),
    "s": (
        *("s.x = 3", "s.y >= 'y1'", "s.x IS NULL", "s IS NOT NULL", "s.x IN (1, 2, NULL)", "s.y LIKE 'y%'"),
        *("s.x <=> NULL", "(s.x = 3 OR s.y = 'y1')", "s = named_struct('x', 1, 'y', 'y1')", "NOT s.x BETWEEN 1 AND 4"),
    ),
    "m": ("m['k1'] > 50", "m IS NULL", "map_contains_key(m, 'k2')", "m['o'] IS NULL"),
}
IDS = ("0L", "100L", "57L", "-1L", "199L")


class Conditions:
    """Makes conditions on the columns of a table; none of them is an error for any row."""

    def __init__(self, chance: random.Random, table: Table) -> None:
        self._chance, self._table = chance, table
        self._flat = tuple(column for column in (*table.columns, *table.hidden) if column.values)

    def some(self) -> tuple[str, ...]:
        """One to three of them."""
        return tuple(self._any() for _ in range(self._chance.choice((1, 1, 1, 2, 2, 3))))

    def _any(self, depth: int = 2) -> str:
        if depth and self._chance.random() < 0.4:
            parts = [self._any(depth - 1) for _ in range(self._chance.choice((1, 2, 2, 3)))]
            joined = self._chance.choice((" AND ", " OR ")).join(parts)
            if not joined.isidentifier():  # `FROM t WHERE (b)` is a table named WHERE with a column b to Spark's parser
                joined = f"({joined})"
            return f"NOT {joined}" if self._chance.random() < 0.3 else joined
        if self._chance.random() < 0.07:
            return self._of_truth(self.comparison())
        return self.comparison()

    def _of_truth(self, condition: str) -> str:
        """What is said of a condition's own truth, with null as a third one."""
        other = self.comparison()
        return self._chance.choice(
            (
                f"({condition}) IS NOT TRUE",
                f"({condition}) IS FALSE",
                f"({condition}) IS NULL",
                f"(({condition}) <=> ({other}))",
                f"coalesce({condition}, {other})",
                f"IF({condition}, {other}, NULL)",
                f"CASE WHEN {condition} THEN {other} WHEN {other} THEN true END",
            )
        )

    def comparison(self) -> str:
        """A condition on a column; hidden ones come as often as a fifth, and more often one on the routing key."""
        key = self._table.key
        if key is not None and self._chance.random() < 0.3:
            some = self._chance.choices(key.values, k=self._chance.randint(1, 3))
            if len(some) == 1:
                return f"{key.name} {self._chance.choice(('=', '<=>'))} {some[0]}"
            return f"{key.name} IN ({', '.join(some)}{self._chance.choice(('', '', ', NULL'))})"
        if self._table.hidden and self._chance.random() < 0.2:
            column = self._chance.choice(self._table.hidden)
        else:
            column = self._chance.choice(self._table.columns)
        name = column.name
        if name in NESTED_CONDITIONS:
            return self._chance.choice(NESTED_CONDITIONS[name])
        values = IDS if name == "id" else column.values
        order, negated = self._chance.choice(ORDERS), self._chance.choice(("", "NOT "))
        match self._chance.randrange(13):
            case 0:
                return f"{name} IS {negated}NULL"
            case 1 | 2:
                return f"{name} {negated}IN ({', '.join(self._listed(column, values))})"
            case 3:
                return f"{name} {negated}BETWEEN {self._one(values)} AND {self._one(values)}"
            case 4:
                return f"{self._one(values)} {order} {name}"
            case 5:
                return self._of_two(column)
            case 6 if column.type == "BOOLEAN":
                return f"{negated}{name}"
            case 6 | 7 if column.type in TEXTS:
                if self._chance.random() < 0.3:
                    return f"{negated}({self._chance.choice(OF_TEXTS).format(name)})"
                return f"{name} {negated}LIKE '{self._chance.choice(PATTERNS)}'"
            case 6 | 7 if column.type in NUMBERS:
                # Of another type, which Spark casts.
                others = [each for each in self._flat if each.type in NUMBERS or each.name == "p"]
                return f"{name} {order} {self._one(self._chance.choice(others).values)}"
            case 8:
                return self._expression(column)
            case 9:
                return f"{name} IS {negated}DISTINCT FROM {self._one((*values, 'NULL'))}"
        return f"{name} {order} {self._one(values)}"

    def _one(self, values: Sequence[str]) -> str:
        return self._chance.choice(values)

    def _listed(self, column: Column, values: Sequence[str]) -> list[str]:
        """Values of IN, some null; of `id` sometimes more than Spark writes out."""
        if column.name == "id" and self._chance.random() < 0.3:
            values = [f"{number}L" for number in range(-5, 200)]
            return self._chance.sample([*values, "NULL"], self._chance.choice((9, 12, 40)))
        return self._chance.sample([*values, "NULL"], self._chance.randint(1, len(values)))

    def _of_two(self, column: Column) -> str:
        """A condition on two columns of a type, or twice the same."""
        same = tuple(each for each in self._flat if each.type == column.type)
        return f"{column.name} {self._chance.choice(ORDERS)} {self._chance.choice(same or (column,)).name}"

    def _expression(self, column: Column) -> str:
        """What a scan cannot tell, and what is no error for any value."""
        name = column.name
        if column.type in NUMBERS:
            return self._chance.choice((f"{name} % 2 = 0", f"CAST({name} AS STRING) < '1'", f"{name} * 0 = 0"))
        if column.type in TEXTS:
            return self._chance.choice(
                (
                    f"length({name}) > 1",
                    f"{name} COLLATE UTF8_LCASE = 'A'",
                    f"upper({name}) = {name}",
                    f"{name} || 'a' > 'a'",
                )
            )
        if column.type in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
            return self._chance.choice((f"year({name}) = 1970", f"CAST({name} AS STRING) LIKE '1%'"))
        return f"coalesce({name}, {self._one(column.values)}) = {self._one(column.values)}"
