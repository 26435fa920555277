"""Adds the options that name the servers to a command, and collects what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def add_server_options(function: F) -> F:
    """Add `--controller-uri` and `--schema-registry-uri` to a command."""
    function = click.option("--schema-registry-uri", metavar="URI", help="Schema registry, e.g. http://host:9092.")(
        function
    )
    return click.option("--controller-uri", metavar="URI", help="Controller of Pravega, e.g. tcp://host:9090.")(
        function
    )


def collect_settings(controller_uri: str | None, schema_registry_uri: str | None) -> dict[str, str]:
    """Return the addresses that were given as a catalog's conf."""
    settings = {"controller-uri": controller_uri, "schema-registry-uri": schema_registry_uri}
    return {key: text for key, text in settings.items() if text is not None}
