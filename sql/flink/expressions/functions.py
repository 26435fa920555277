"""Translate Flink's functions to Spark's. One in no table here keeps its name, with a finding: nobody compared it."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from ..dialect import SPARK_WINDOWS, build_call
from ..report import Findings, Untranslatable
from .inference import LOCAL, TEXT, WHOLE, infer, remember
from .types import translate_cast
from .zones import Zone, check_zone

_EQUAL = frozenset(
    """ABS ACOS APPROX_COUNT_DISTINCT ARRAY_CONTAINS ARRAY_DISTINCT ARRAY_JOIN ARRAY_MAX ARRAY_MIN ARRAY_POSITION
    ARRAY_REMOVE ARRAY_UNION ASCII ASIN ATAN ATAN2 BIN BTRIM CARDINALITY CEIL CHARACTER_LENGTH
    CHAR_LENGTH CHR COALESCE CONCAT CONCAT_WS COS COSH COT COUNT CUME_DIST CURRENT_DATE CURRENT_TIMESTAMP
    DAYOFMONTH DAYOFWEEK DAYOFYEAR DECODE DEGREES DENSE_RANK E ENCODE EXP FLOOR FROM_UNIXTIME
    GROUPING GROUPING_ID HEX HOUR IF IFNULL INSTR LAG LEAD LEFT LENGTH LN LOCATE LOG LOG10 LOG2 LOWER
    LPAD MAP_ENTRIES MAP_FROM_ARRAYS MAP_KEYS MAP_VALUES MAX MD5 MIN MINUTE MOD MONTH NOW NTILE NULLIF NVL
    PARSE_URL PERCENT_RANK PI POWER QUARTER RADIANS RAND RANK REPEAT REPLACE REVERSE RIGHT ROUND
    ROW_NUMBER RPAD SECOND SHA1 SIN SINH SQRT STDDEV_POP STDDEV_SAMP SUBSTR SUBSTRING SUM TAN
    TANH UNIX_TIMESTAMP UPPER UUID VAR_POP VAR_SAMP VARIANCE YEAR
    """.split()
)
"""Names of functions with the same meaning in both, for the arguments that docs/flink.md names."""

_RENAMED = {
    "CURRENT_ROW_TIMESTAMP": "current_timestamp",
    "GREATEST": "greatest",
    "INITCAP": "initcap",
    "INT": "int",
    "LEAST": "least",
    "LOCALTIMESTAMP": "localtimestamp",
    "PROCTIME": "current_timestamp",
    "ROW": "struct",
    "STRUCT": "struct",
    "TO_BASE64": "base64",
    "WEEK": "weekofyear",
    "COT": "cot",
    "REGEXP": "rlike",
}
_ANY_VALUE = "is any value that is not NULL here, because rows have no order; use MIN_BY or MAX_BY"
_WITHOUT_NULLS = "ignores NULLs here; in Flink one NULL makes the result NULL"
_CHECKS = {
    "FIRST_VALUE": f"FIRST_VALUE {_ANY_VALUE}",
    "GREATEST": f"GREATEST {_WITHOUT_NULLS}",
    "INITCAP": "INITCAP begins a word only after a space; in Flink after everything that is not a letter or digit",
    "JSON_VALUE": "JSON_VALUE became get_json_object, which also gives objects and arrays, as text",
    "LAST_VALUE": f"LAST_VALUE {_ANY_VALUE}",
    "LEAST": f"LEAST {_WITHOUT_NULLS}",
    "PROCTIME": "PROCTIME() became current_timestamp(), the time at which a micro-batch began",
}
"""What differs in every call of a function."""
_REFUSED = {
    "COLLECT": "COLLECT has no equivalent: Spark has no MULTISET; collect_list gives an array",
    "CURRENT_WATERMARK": "CURRENT_WATERMARK has no equivalent: a query does not see Spark's watermark",
    "SOURCE_WATERMARK": "SOURCE_WATERMARK has no equivalent: Pravega's own watermarks are in the hidden column "
    "_event_time",
    "TABLE": "LATERAL TABLE has no equivalent: register the function in Spark, and use LATERAL with it",
}

_Arguments = list[exp.Expr]
_EXTRACTED = frozenset("YEAR QUARTER MONTH WEEK DAY DOW DOY HOUR MINUTE".split())
"""Units of EXTRACT that are the same in both."""


def _split(name: str, arguments: _Arguments) -> exp.Expr:
    text, delimiter = arguments
    if not isinstance(delimiter, exp.Literal):
        raise Untranslatable(f"{name} needs a literal as its delimiter, because Spark splits at regular expressions")
    return build_call("split", text, re.escape(delimiter.name))


def _build_average(arguments: _Arguments, findings: Findings) -> exp.Expr:
    if not isinstance(arguments[0].unnest(), exp.Cast):
        findings.check(
            "AVG of whole numbers is a whole number in Flink, but a fraction here: CAST it if its values are whole "
            "numbers"
        )
    return build_call("avg", *arguments)


def _build_date_format(arguments: _Arguments, findings: Findings) -> exp.Expr:
    if not isinstance(arguments[1], exp.Literal) or "Y" in arguments[1].name:
        findings.check("DATE_FORMAT: Spark refuses patterns with YYYY, the year of a week; yyyy is the year of a date")
    return build_call("DATE_FORMAT", *arguments)


def _build_to_timestamp(arguments: _Arguments, findings: Findings) -> exp.Expr:
    if len(arguments) > 1:
        findings.check("TO_TIMESTAMP: a text that does not match the pattern is an error here, but NULL in Flink")
        return build_call("to_timestamp_ntz", *arguments)
    if not _is_text_like(arguments[0], r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,3})?)?"):
        findings.check(
            "TO_TIMESTAMP became TRY_CAST: it keeps microseconds, where Flink keeps milliseconds, and accepts texts "
            "that are NULL in Flink, such as some with T or a zone"
        )
    return exp.TryCast(this=arguments[0], to=exp.DataType.build("timestamp_ntz"), safe=True)


def _build_to_timestamp_ltz(arguments: _Arguments, findings: Findings) -> exp.Expr:
    digits = arguments[1].name if len(arguments) > 1 and isinstance(arguments[1], exp.Literal) else "3"
    if digits not in ("0", "3"):
        raise Untranslatable("TO_TIMESTAMP_LTZ of numbers must have the precision 0 or 3")
    if infer(arguments[0]) in TEXT:
        raise Untranslatable("TO_TIMESTAMP_LTZ of a text is not translated: CAST it to TIMESTAMP_LTZ")
    return build_call("timestamp_seconds" if digits == "0" else "timestamp_millis", arguments[0])


def _build_time_difference(arguments: _Arguments, findings: Findings) -> exp.Expr:
    if arguments[0].name.upper() in ("MONTH", "QUARTER", "YEAR"):
        findings.check("TIMESTAMPDIFF of months: 31 January to 29 February is a month in Flink, and none in Spark")
    return build_call("TIMESTAMPDIFF", *arguments)


def _build_later_time(arguments: _Arguments, findings: Findings) -> exp.Expr:
    unit, _, time = arguments
    later = build_call("TIMESTAMPADD", *arguments)
    is_date = infer(time) == "DATE" and unit.name.upper() in ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
    return exp.cast(later, "date") if is_date else later


def _build_ceiling(arguments: _Arguments, findings: Findings) -> exp.Expr:
    ceiling = build_call("CEILING", *arguments)
    return exp.cast(ceiling, "double") if infer(arguments[0]) == "DOUBLE" else ceiling


def _build_sign(arguments: _Arguments, findings: Findings) -> exp.Expr:
    sign, kind = build_call("SIGN", *arguments), infer(arguments[0])
    return exp.cast(sign, kind.lower()) if kind in WHOLE else sign


def _build_to_date(arguments: _Arguments, findings: Findings) -> exp.Expr:
    if len(arguments) > 1:
        findings.check("TO_DATE: a text that does not match the pattern is an error here, but NULL in Flink")
        return build_call("to_date", *arguments)
    if not _is_text_like(arguments[0], r"\d{4}-\d\d-\d\d"):
        findings.check("TO_DATE became TRY_CAST: it accepts some texts that are NULL in Flink, such as those with T")
    return exp.TryCast(this=arguments[0], to=exp.DataType.build("date"), safe=True)


def _is_text_like(node: exp.Expr, form: str) -> bool:
    return isinstance(node, exp.Literal) and node.is_string and re.fullmatch(form, node.name) is not None


def _build_regexp_replace(arguments: _Arguments, findings: Findings) -> exp.Expr:
    text, pattern, replacement = arguments
    if isinstance(replacement, exp.Literal):  # Flink takes it as it is
        replacement = exp.Literal.string(re.sub(r"([\\$])", r"\\\1", replacement.name))
    else:
        findings.check("REGEXP_REPLACE: $ and \\ in the replacement have a meaning here, but none in Flink")
    return build_call("REGEXP_REPLACE", text, pattern, replacement)


_BUILT: dict[str, Callable[[_Arguments, Findings], exp.Expr]] = {
    "AVG": _build_average,
    "CEILING": _build_ceiling,
    "DATE_FORMAT": _build_date_format,
    "FIRST_VALUE": lambda arguments, _: build_call("first_value", arguments[0], exp.true()),
    "FROM_BASE64": lambda arguments, _: exp.cast(build_call("unbase64", *arguments), "string"),
    "JSON_VALUE": lambda arguments, _: build_call("get_json_object", *arguments[:2]),
    "LAST_VALUE": lambda arguments, _: build_call("last_value", arguments[0], exp.true()),
    "LISTAGG": lambda arguments, _: build_call("listagg", arguments[0], *(arguments[1:] or [exp.convert(",")])),
    # Of two arguments, Flink has the text first, Spark the characters.
    "LTRIM": lambda arguments, _: build_call("ltrim", *reversed(arguments)),
    "RAND_INTEGER": lambda arguments, _: exp.cast(
        exp.Mul(this=build_call("rand", *arguments[:-1]), expression=arguments[-1]), "int"
    ),
    "REGEXP_EXTRACT": lambda arguments, _: build_call(
        "nullif", build_call("regexp_extract", *arguments[:2], *(arguments[2:] or [exp.convert(0)])), ""
    ),
    "REGEXP_REPLACE": _build_regexp_replace,
    "RTRIM": lambda arguments, _: build_call("rtrim", *reversed(arguments)),
    "SHA224": lambda arguments, _: build_call("sha2", arguments[0], 224),
    "SHA256": lambda arguments, _: build_call("sha2", arguments[0], 256),
    "SHA384": lambda arguments, _: build_call("sha2", arguments[0], 384),
    "SHA512": lambda arguments, _: build_call("sha2", arguments[0], 512),
    "SIGN": _build_sign,
    "SPLIT": lambda arguments, _: _split("SPLIT", arguments),
    "SPLIT_INDEX": lambda arguments, _: build_call("get", _split("SPLIT_INDEX", arguments[:-1]), arguments[-1]),
    "TIMESTAMPADD": _build_later_time,
    "TIMESTAMPDIFF": _build_time_difference,
    "TO_DATE": _build_to_date,
    "TO_TIMESTAMP": _build_to_timestamp,
    "TO_TIMESTAMP_LTZ": _build_to_timestamp_ltz,
}
"""Functions that Spark expresses differently."""


def translate_functions(tree: exp.Expr, findings: Findings, zone: Zone) -> exp.Expr:
    """Translate calls of functions and CASTs in a tree. Raises Untranslatable for those without an equivalent."""
    for node in reversed(list(tree.walk())):  # the arguments of a call before the call
        kind = infer(node)
        check_zone(node, zone, findings)
        if (translated := _translate_node(node, findings)) is node:
            continue
        remember(translated, kind)
        if node is tree:
            tree = translated
        else:
            node.replace(translated)
    return tree


def _translate_node(node: exp.Expr, findings: Findings) -> exp.Expr:
    if isinstance(node, exp.Localtimestamp) or _is_word(node, "LOCALTIMESTAMP"):
        return build_call("localtimestamp")
    if isinstance(node, exp.Cast):
        return translate_cast(node, findings)
    if isinstance(node, exp.Unnest) and node.args.get("offset"):
        findings.check("WITH ORDINALITY counts from 0 here, and its number is the first column")
    if isinstance(node, exp.Bracket):
        return _translate_bracket(node, findings)
    if isinstance(node, exp.Div) and not _is_fractional(node):
        findings.check(
            "The quotient of whole numbers is a whole number in Flink, but a fraction in Spark: use DIV for whole "
            "numbers"
        )
    if isinstance(node, exp.SimilarTo):
        raise Untranslatable("SIMILAR TO has no equivalent: use RLIKE with a Java regular expression")
    if isinstance(node, exp.Extract):
        return _translate_extract(node, findings)
    if isinstance(node, exp.Floor | exp.Ceil) and node.args.get("to"):
        if isinstance(node, exp.Ceil):
            raise Untranslatable("CEIL(time TO unit) has no equivalent; add the unit to date_trunc")
        return _truncate_time(node.this, node.args["to"].name.upper())
    if isinstance(node, exp.Floor | exp.Ceil) and infer(node) == "DOUBLE":
        return exp.cast(node.copy(), "double")  # a BIGINT in Spark
    if not isinstance(node, exp.Anonymous):
        return node
    name = node.name.upper()
    if name in _REFUSED:
        raise Untranslatable(_REFUSED[name])
    if name in _CHECKS:
        findings.check(_CHECKS[name])
    if name in _BUILT:
        return _BUILT[name](node.expressions, findings)
    if name in _RENAMED:
        return build_call(_RENAMED[name], *node.expressions)
    if name not in _EQUAL and node.name not in SPARK_WINDOWS:  # the translation itself has made these
        findings.check(f"The function {node.name} is not known here, and was kept")
    return node


def _truncate_time(time: exp.Expr, unit: str) -> exp.Expr:
    if unit == "WEEK":
        raise Untranslatable("FLOOR(time TO WEEK) has no equivalent: a week begins on Sunday in Flink, on Monday here")
    truncated, kind = build_call("date_trunc", unit, time), infer(time)
    return exp.cast(truncated, kind.lower()) if kind in ("DATE", LOCAL) else truncated


def _is_word(node: exp.Expr, word: str) -> bool:
    """Return whether a node is a word of Flink's that the parser takes for the name of a column."""
    return isinstance(node, exp.Column) and node.name.upper() == word and not node.args.get("table")


def _is_fractional(node: exp.Div) -> bool:
    sides = (node.this.unnest(), node.expression.unnest())
    return any(
        (isinstance(side, exp.Literal) and "." in side.name)
        or (isinstance(side, exp.Cast) and side.to.this in (*exp.DataType.FLOAT_TYPES, exp.DataType.Type.DECIMAL))
        for side in sides
    )


def _translate_bracket(node: exp.Bracket, findings: Findings) -> exp.Expr:
    if _is_word(node.this, "MAP"):
        return build_call("map", *node.expressions)
    if not all(isinstance(index, exp.Literal) for index in node.expressions):
        text = node.sql(comments=False)
        findings.check(f"{text}: elements of an array are counted from 0 here; keys of a map stay the same")
    elif not node.expressions[0].is_string:
        return build_call("get", node.this, *node.expressions)  # NULL after the end, as in Flink
    return node


def _translate_extract(node: exp.Extract, findings: Findings) -> exp.Expr:
    unit = node.name.upper()
    if unit == "SECOND":
        return exp.cast(node.copy(), "int")  # with the fraction, which Flink leaves out
    if unit not in _EXTRACTED:
        findings.check(f"EXTRACT({unit} ...) is not known here, and was kept")
    return node
