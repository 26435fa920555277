"""What commands that ask servers share: the options that name these, and how to connect to them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from pyspark_pravega.sql.identifiers import split_name

if TYPE_CHECKING:
    from pyspark_pravega.catalog import PravegaCatalog
    from pyspark_pravega.client import Pravega

_CONTROLLER = {"controller-uri": "Controller of Pravega, e.g. tcp://host:9090."}
_REGISTRY = {"schema-registry-uri": "Schema registry, e.g. http://host:9092."}


def add_server_options(function: Callable[..., None], *, registry: bool = True) -> Callable[..., None]:
    """Add `--controller-uri` and `--schema-registry-uri` to a command.

    The command gets the addresses that are given as `settings` of a catalog's conf.
    """
    options = {**_CONTROLLER, **(_REGISTRY if registry else {})}

    @functools.wraps(function)
    def command(**arguments: Any) -> None:
        addresses = {key: arguments.pop(key.replace("-", "_")) for key in options}
        function(**arguments, settings={key: text for key, text in addresses.items() if text is not None})

    for key, text in reversed(options.items()):
        click.option(f"--{key}", metavar="URI", help=text)(command)
    return command


def check_table(ctx: click.Context, _param: click.Parameter, table: str | None) -> str | None:
    """Return the argument that names a table. Raises UsageError for a name without a namespace."""
    if table is not None and len(split_name(table)) < 2:
        raise click.UsageError(
            f"'{table}' has no namespace. Write {ctx.command_path} <namespace>.{table}; `pyspark-pravega show tables` "
            "lists the tables of all namespaces."
        )
    return table


def connect_catalog(settings: Mapping[str, str]) -> PravegaCatalog:
    """Open the catalog of the servers that these settings and the environment name. Raises InvalidOptionError."""
    from pyspark_pravega.catalog import connect

    return connect(**settings)


def connect_client(settings: Mapping[str, str]) -> Pravega:
    """Connect to the servers that these settings and the environment name. Raises InvalidOptionError."""
    from pyspark_pravega.client import connect
    from pyspark_pravega.datasource.connecting import read_client_config, read_first_contact
    from pyspark_pravega.sql.options import resolve

    options = resolve(conf=settings, env=os.environ)
    return connect(read_client_config(options), first_contact=read_first_contact(options))
