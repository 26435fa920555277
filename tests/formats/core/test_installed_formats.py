"""Formats that other distributions bring by an entry point, and what they import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import pyspark_pravega.formats
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.formats.core.format import ENTRY_POINTS, find_format, list_format_names

MODULE = """
from pyspark_pravega.formats import BadEvent, Decoder, Encoder, EventBuffer, Format

class Whole:
    name = "{name}"
    registry_format = None
    schema_text = spark_schema = type_name = decoder = encoder = None

class Changes(Whole):
    changes = True
    infer_columns = truncate_candidates = None

class Registered(Whole):
    registry_format = "Custom"

class RegisteredChanges(Changes):
    registry_format = "Custom"

class NoChanges(Whole):
    changes = True

class Raises(Whole):
    def __init__(self):
        raise KeyError("setting")
"""


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Install a class of MODULE as a format; its name is that of the test, since found ones are remembered."""
    kind = request.param
    name = f"brought-{kind.lower()}"
    text = MODULE.replace("{name}", name if kind != "Renamed" else "another")
    text += "del Whole.type_name\n" * (kind == "Incomplete")
    module = f"brought_{kind.lower()}"
    (tmp_path / f"{module}.py").write_text(text)
    info = tmp_path / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    found = {"Incomplete": "Whole", "Renamed": "Whole"}.get(kind, kind)
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{name} = {module}:{found}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, module, raising=False)
    return name


@pytest.mark.parametrize("bring", ["Whole", "Changes"], indirect=True)
def test_a_format_is_found_by_its_name(bring: str) -> None:
    assert find_format(bring.upper()).name == bring
    assert bring in list_format_names()


@pytest.mark.parametrize(
    ("bring", "reason"),
    [
        ("NoChanges", "has no infer_columns, truncate_candidates"),
        ("Incomplete", "has no type_name"),
        ("Renamed", "calls itself 'another'"),
        ("Raises", "cannot be used: KeyError: 'setting'"),
        ("Missing", "cannot be used: AttributeError"),
    ],
    indirect=["bring"],
)
def test_what_is_no_format_says_why(bring: str, reason: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"'{bring}' .*{reason}"):
        find_format(bring)


def test_all_that_a_format_imports_is_there() -> None:
    for name in pyspark_pravega.formats.__all__:
        assert getattr(pyspark_pravega.formats, name) is not None
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        from pyspark_pravega.formats import Nothing  # type: ignore[attr-defined]  # noqa: F401
