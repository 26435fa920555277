"""The public entry points: each has a docstring with an example."""

from __future__ import annotations

import doctest
import inspect
import re
import textwrap
from collections.abc import Callable

import click
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from pyspark_pravega import DefaultSource, configure, errors
from pyspark_pravega.catalog import connect as connect_catalog
from pyspark_pravega.client import (
    ClientConfig,
    Compatibility,
    GroupProperties,
    Pravega,
    ScalingPolicy,
    SchemaInfo,
    SegmentAppender,
    Stream,
    StreamConfiguration,
    connect,
    frame,
)
from pyspark_pravega.client.controller.controller import Controller
from pyspark_pravega.client.key_value.key_value_table import KeyValueTable
from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.commands.cli import main
from pyspark_pravega.formats import Decoder, Encoder, EventBuffer, Format, Layout
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.local.cluster import LocalCluster

ENTRY_POINTS: list[object] = [
    ClientConfig,
    Controller,
    Decoder,
    DefaultSource,
    Encoder,
    Format,
    KeyValueTable,
    LocalCluster,
    LocalCluster.start,
    Pravega,
    SchemaRegistry,
    SegmentAppender,
    Transaction,
    errors,
    configure,
    connect,
    connect_catalog,
]
WITHOUT_SERVERS: list[type[object] | Callable[..., object]] = [
    Compatibility,
    GroupProperties,
    ScalingPolicy,
    SchemaInfo,
    Stream,
    StreamConfiguration,
    frame,
]
FORMATS: dict[type[object], str] = {
    Decoder: "[{'id': 1}] [BadEvent(1",
    Encoder: "[b'{\"id\":1}', b'{\"id\":2}']",
    Format: "",
}


def example(entry_point: object) -> str:
    """The lines behind `>>>` in a docstring's section of examples, or its first indented block."""
    text = inspect.getdoc(entry_point) or ""
    if prompted := re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", text, re.MULTILINE):
        return "\n".join(prompted)
    found = re.search(r"^(?: {4}.*\n?(?:\n(?= {4}))?)+", text, re.MULTILINE)
    return textwrap.dedent(found[0]) if found else ""


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_an_example_is_python(entry_point: object) -> None:
    assert example(entry_point)
    compile(example(entry_point), "example", "exec")


@pytest.mark.parametrize("entry_point", WITHOUT_SERVERS, ids=lambda entry_point: entry_point.__name__)
def test_an_example_without_servers_shows_what_it_returns(
    entry_point: type[object] | Callable[..., object],
) -> None:
    text = inspect.getdoc(entry_point) or ""
    names = {value.__name__: value for value in WITHOUT_SERVERS} | {"pa": pa}
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTestParser().get_doctest(text, names, entry_point.__name__, None, None))
    assert runner.tries > 0 and runner.failures == 0


@pytest.mark.parametrize("entry_point", FORMATS, ids=lambda entry_point: entry_point.__name__)
def test_an_example_of_formats_works(entry_point: type[object], capsys: pytest.CaptureFixture[str]) -> None:
    names = {
        "EventBuffer": EventBuffer,
        "IntegerType": IntegerType,
        "Layout": Layout,
        "StructField": StructField,
        "StructType": StructType,
        "find_format": find_format,
        "pa": pa,
    }
    exec(example(entry_point), names)
    assert FORMATS[entry_point] in capsys.readouterr().out


def test_the_command_shows_examples() -> None:
    commands = re.findall(r"^ +pyspark-pravega (\w+)", main.help or "", re.MULTILINE)
    assert set(commands) <= set(main.list_commands(click.Context(main))) and len(commands) > 1
