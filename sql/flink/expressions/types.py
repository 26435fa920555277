"""Column types of Flink as Spark's."""

from __future__ import annotations

import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from ..dialect import Flink, SparkOutput
from ..report import Findings, Untranslatable

_Type = exp.DataType.Type
_REFUSED = {"MULTISET": "use MAP<element, INT>", "RAW": "store BYTES", "SYMBOL": "store STRING", "NULL": "give a type"}
_INTEGRAL_MICROSECONDS = 6


def spark_type(text: str, column: str, findings: Findings) -> str:
    """Return the Spark type of a column. Raises Untranslatable for one that Spark does not have."""
    first = re.split(r"[\s<(]", text.strip())[0].upper()
    if "MULTISET" in text.upper():
        first = "MULTISET"
    if first in _REFUSED:
        raise Untranslatable(f"Column {column}: Spark has no type {first}; {_REFUSED[first]}")
    if first == "INTERVAL":
        raise Untranslatable(f"Column {column}: no format keeps intervals; store BIGINT")
    if re.search(r"\sARRAY$", text.upper()):
        raise Untranslatable(f"Column {column}: write ARRAY<{text[:-6].strip()}> for {text}")
    plain = re.sub(r"\s+'(?:[^']|'')*'(?=\s*[,>)])", "", text)
    bare = re.sub(r"\s+NOT\s+NULL(?=\s*[,>)])", "", plain, flags=re.IGNORECASE)
    if bare != text:
        findings.note(f"{column}: comments and NOT NULL inside of {first} are left out")
    text = bare
    try:
        tree = sqlglot.parse_one(text, into=exp.DataType, dialect=Flink)
    except ParseError as error:
        raise Untranslatable(f"Column {column}: the type {text} is not known") from error
    return translated(tree, column, findings).sql(dialect=SparkOutput)


def translated(tree: exp.Expr, column: str, findings: Findings) -> exp.Expr:
    """Change a type to one that Spark prints, with findings for what it cannot keep."""
    for node in tree.find_all(exp.DataType):
        if node.this in (_Type.TIME, _Type.TIMETZ):
            findings.check(f"{column}: tables keep no TIME; it is a STRING such as '10:15:00' here")
            node.set("this", _Type.TEXT)
            node.set("expressions", [])
        elif node.this in (_Type.TIMESTAMP, _Type.TIMESTAMPNTZ, _Type.TIMESTAMPLTZ, _Type.TIMESTAMPTZ):
            digits = node.expressions[0].name if node.expressions else "6"
            if digits.isdigit() and int(digits) > _INTEGRAL_MICROSECONDS:
                findings.check(f"{column}: Spark's timestamps end with microseconds; Flink's had {digits} digits")
            node.set("expressions", [])
    return tree
