"""Files of Avro schemas: read where a query is planned, and only if they are plain ones."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.formats.changes.debezium import avro
from pyspark_pravega.formats.changes.debezium.avro import parse_schemas_by_id, read_schemas


def test_text_and_files(tmp_path: Path) -> None:
    text = '{"7": {"type": "record", "name": "grüße", "fields": []}}'
    path = tmp_path / "schemas.json"
    path.write_text(text, encoding="utf-8")
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read_schemas(f" {text}\n") == read_schemas(str(path)) == read_schemas(str(link)) == text
    assert list(parse_schemas_by_id(text)) == [7]


def _listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkfifo, "it is not a regular file"),
        (Path.mkdir, "it is not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is not a regular file"),
        (_listen, "No such device or address"),
        (lambda path: None, "No such file or directory"),
        (lambda path: path.write_bytes(b"[" * 11), "it has 11 bytes"),
        (lambda path: path.write_bytes(b"nothing"), "Expecting value"),
        (lambda path: path.write_bytes(b'{"\xff"}'), "'utf-8' codec"),
    ],
)
def test_what_is_no_file_of_schemas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object], reason: str
) -> None:
    """A named pipe that nobody writes to would be waited for: the timeout of tests ends that."""
    monkeypatch.setattr(avro, "LARGEST_FILE", 10)
    path = tmp_path / "p"
    make(path)
    with pytest.raises(InvalidOptionError, match=f"'debezium.avro-schemas'='{path}' .* {reason}"):
        read_schemas(str(path))


@pytest.mark.parametrize("text", ["[" * 100_000, "[7]", '{"a": {}}', '[{"id": 7}]'])
def test_json_that_has_no_schemas(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="a JSON object of schemas by id"):
        parse_schemas_by_id(read_schemas(text))


def test_a_long_path_is_cut() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        read_schemas("x" * 100_000)
    assert len(caught.value.message) < 600
