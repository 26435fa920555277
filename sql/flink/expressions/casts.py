"""CASTs of Flink in Spark: equal for most types, and told where the result is another one."""

from __future__ import annotations

from sqlglot import exp

from ..report import Findings
from .inference import LOCAL, NULL, TEXT, WHOLE, ZONED, infer

_SAME_TEXT = WHOLE | TEXT | {"DECIMAL", "DATE", NULL}
"""Types whose values are the same text in both."""
_UNLIMITED = 2_147_483_647
_OTHER_TEXT = {
    LOCAL: "Flink prints all digits of a TIMESTAMP's precision, and Spark no zeros at the end: use DATE_FORMAT",
    ZONED: "Flink prints all digits of a TIMESTAMP's precision, and Spark no zeros at the end: use DATE_FORMAT",
    "DOUBLE": "Flink and Spark may print other digits: CAST it to DECIMAL first",
    "FLOAT": "Flink and Spark may print other digits: CAST it to DECIMAL first",
    None: "its type is not known here, and Flink prints BOOLEAN, TIMESTAMP and nested types in another way",
}


def translate_cast(node: exp.Cast, findings: Findings) -> exp.Expr:
    """Return a CAST or TRY_CAST as Spark's, with findings for what differs."""
    source, target = infer(node.this), infer(node)
    if target in TEXT:
        return _to_text(node, source, findings)
    if target in WHOLE and (source in TEXT or source is None) and not _plain_number(node.this):
        condition = "" if source else " (its type is not known here)"
        findings.check(
            f"CAST({_named(node.this)} AS {target}): Flink cuts the fraction of a text such as '1.5', which is no "
            f"whole number here{condition}: CAST it to DECIMAL before"
        )
    return node


def _to_text(node: exp.Cast, source: str | None, findings: Findings) -> exp.Expr:
    given = node.to.expressions
    limit = given[0].name if given else "1" if node.to.this is exp.DataType.Type.CHAR else str(_UNLIMITED)
    if limit != str(_UNLIMITED):
        findings.check(
            f"CAST({_named(node.this)} AS {node.to.this.name}({limit})): Spark neither cuts nor fills a text: use LEFT "
            "or RPAD"
        )
    if source == "BOOLEAN":
        return exp.Anonymous(this="upper", expressions=[node.copy()])  # TRUE in Flink, true in Spark
    if source not in _SAME_TEXT:
        why = _OTHER_TEXT.get(source, f"Flink prints {source} in another way")
        findings.check(f"CAST({_named(node.this)} AS STRING): {why}")
    return node


def _plain_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and "." not in node.name


def _named(node: exp.Expr) -> str:
    return node.name if isinstance(node, exp.Column) else "..."
