"""Translate column types of Flink, and CASTs between them."""

from __future__ import annotations

import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from ..dialect import Flink, SparkOutput, build_call
from ..report import Findings, Untranslatable
from .inference import LOCAL, NULL, TEXT, WHOLE, ZONED, infer

_Type = exp.DataType.Type
_REFUSED = {"MULTISET": "use MAP<element, INT>", "RAW": "store BYTES", "SYMBOL": "store STRING", "NULL": "give a type"}
_INTEGRAL_MICROSECONDS = 6
_SAME_TEXT = WHOLE | TEXT | {"DECIMAL", "DATE", NULL}
"""Types whose values have the same text in both."""
_UNLIMITED = 2_147_483_647
_OTHER_TEXT = {
    LOCAL: "Flink prints all digits of a TIMESTAMP's precision, but Spark prints no trailing zeros: use DATE_FORMAT",
    ZONED: "Flink prints all digits of a TIMESTAMP's precision, but Spark prints no trailing zeros: use DATE_FORMAT",
    "DOUBLE": "Flink and Spark may print different digits: CAST it to DECIMAL first",
    "FLOAT": "Flink and Spark may print different digits: CAST it to DECIMAL first",
    None: "its type is not known here, and Flink prints BOOLEAN, TIMESTAMP and nested types differently",
}


def translate_column_type(text: str, column: str, findings: Findings) -> str:
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
        findings.note(f"{column}: comments and NOT NULL inside {first} are left out")
    text = bare
    try:
        tree = sqlglot.parse_one(text, into=exp.DataType, dialect=Flink)
    except ParseError as error:
        raise Untranslatable(f"Column {column}: the type {text} is not known") from error
    return translate_type(tree, column, findings).sql(dialect=SparkOutput)


def translate_type(tree: exp.Expr, column: str, findings: Findings) -> exp.Expr:
    """Change a type, in place, to one that Spark prints; add findings for what it cannot keep."""
    for node in tree.find_all(exp.DataType):
        if node.this in (_Type.TIME, _Type.TIMETZ):
            findings.check(f"{column}: tables cannot store TIME; it is a STRING such as '10:15:00' here")
            node.set("this", _Type.TEXT)
            node.set("expressions", [])
        elif node.this in (_Type.TIMESTAMP, _Type.TIMESTAMPNTZ, _Type.TIMESTAMPLTZ, _Type.TIMESTAMPTZ):
            digits = node.expressions[0].name if node.expressions else "6"
            if digits.isdigit() and int(digits) > _INTEGRAL_MICROSECONDS:
                findings.check(f"{column}: Spark's timestamps have microseconds; Flink's had {digits} digits")
            node.set("expressions", [])
    return tree


def translate_cast(node: exp.Cast, findings: Findings) -> exp.Expr:
    """Translate a CAST or TRY_CAST, with findings for differences."""
    source, target = infer(node.this), infer(node)
    if target in TEXT:
        return _cast_to_text(node, source, findings)
    is_plain_number = isinstance(node.this, exp.Literal) and "." not in node.this.name
    if target in WHOLE and (source in TEXT or source is None) and not is_plain_number:
        condition = "" if source else " (its type is not known here)"
        findings.check(
            f"CAST({_name_operand(node.this)} AS {target}): Flink cuts off the fraction of a text such as '1.5', which "
            f"is not a whole number here{condition}: CAST it to DECIMAL first"
        )
    return node


def _cast_to_text(node: exp.Cast, source: str | None, findings: Findings) -> exp.Expr:
    lengths = node.to.expressions
    limit = lengths[0].name if lengths else "1" if node.to.this is exp.DataType.Type.CHAR else str(_UNLIMITED)
    if limit != str(_UNLIMITED):
        findings.check(
            f"CAST({_name_operand(node.this)} AS {node.to.this.name}({limit})): Spark neither cuts nor pads a text: "
            "use LEFT or RPAD"
        )
    if source == "BOOLEAN":
        return build_call("upper", node.copy())  # TRUE in Flink, true in Spark
    if source not in _SAME_TEXT:
        why = _OTHER_TEXT.get(source, f"Flink prints {source} differently")
        findings.check(f"CAST({_name_operand(node.this)} AS STRING): {why}")
    return node


def _name_operand(node: exp.Expr) -> str:
    return node.name if isinstance(node, exp.Column) else "..."
