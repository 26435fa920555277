"""The errors: each with a condition and an SQLSTATE of its kind, each documented."""

from __future__ import annotations

import importlib.util
import json
import pickle
import re
import zipfile
from pathlib import Path

import pytest

from pyspark_pravega.errors import InvalidOptionError, PravegaError
from pyspark_pravega.sql.options import resolve
from tests.reference_pages import list_conditions, renew_page

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def states() -> set[str]:
    """All SQLSTATEs that Spark knows."""
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None and spark.origin is not None
    (jar,) = Path(spark.origin).parent.glob("jars/spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as archive:
        return set(json.loads(archive.read("error/error-states.json")))


def test_every_condition_has_an_sqlstate_that_spark_knows(states: set[str]) -> None:
    assert {kind.condition: kind.sql_state for kind in list_conditions() if kind.sql_state not in states} == {}


def test_every_class_has_its_own_condition_cause_and_cure() -> None:
    kinds = list_conditions()
    assert len({kind.condition for kind in kinds}) == len(kinds)
    for kind in kinds:
        assert re.fullmatch("PRAVEGA_[A-Z_]+", kind.condition), kind
        assert {"condition", "sql_state", "cure", "__doc__"} <= set(vars(kind)), kind
        assert kind.__doc__ and kind.__doc__.endswith((".", "`.")) and kind.cure.endswith("."), kind


def test_an_error_survives_pickling() -> None:
    read = pickle.loads(pickle.dumps(InvalidOptionError("the text")))
    assert isinstance(read, PravegaError) and str(read) == "[PRAVEGA_INVALID_OPTION] the text"


def test_long_values_are_cut_where_messages_show_them() -> None:
    value = "begin" + "x" * 100_000 + "end"
    for read in ({"read-window": value}, {value: "1"}, {"colour": value}):
        with pytest.raises(InvalidOptionError) as caught:
            resolve(read=read, env={})
        message = str(caught.value)
        assert len(message) < 2000 and "begin" in message and "end'" in message and "100,00" in message, message


def test_no_message_is_endless() -> None:
    message = str(InvalidOptionError("The value 'begin" + "x" * 100_000 + "' is not valid. Do this instead."))
    assert len(message) < 500 and "100,0" in message and message.endswith("Do this instead.")
    message = str(InvalidOptionError("many words " * 10_000 + "Do this instead."))
    assert 5000 < len(message) < 9000 and message.endswith("Do this instead.")


def test_the_documentation_is_up_to_date() -> None:
    page = ROOT / "docs" / "troubleshooting.md"
    assert page.read_text() == renew_page(page), "run `make docs/troubleshooting.md`"


def test_conditions_that_documents_and_java_name_exist() -> None:
    known = {kind.condition for kind in list_conditions()}
    named = set()
    for page in [*(ROOT / "jvm").rglob("*.java"), *(ROOT / "docs").rglob("*.md")]:
        named |= set(re.findall(r"(?<!\w)PRAVEGA_(?:[A-Z]+_)*[A-Z]+", page.read_text()))
    endings = ("_URI", "_STORE", "_SETTINGS", "_PASSWORD", "_SCOPE", "_VERSION", "_REGISTRY", "_LAKE")
    environment = {name for name in named if name.endswith(endings)}
    assert named - environment <= known


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("there is no stream 'a'", "There is no stream 'a'."),
        ("cannot reach it; is it up?", "Cannot reach it; is it up?"),
        ("'mode'='x' is not valid", "'mode'='x' is not valid."),
        ("pravega.iot.t are several streams.", "pravega.iot.t are several streams."),
    ],
)
def test_users_see_sentences(message: str, sentence: str) -> None:
    assert InvalidOptionError(message).for_user() == f"[PRAVEGA_INVALID_OPTION] {sentence}"
