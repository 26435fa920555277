"""Shows errors of this package as those of a command: a line on the terminal, and exit code 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from pyspark_pravega.errors import PravegaError


@contextmanager
def show_errors() -> Iterator[None]:
    """Raise click's error, with the text for users, in place of a PravegaError of the body."""
    try:
        yield
    except PravegaError as error:
        raise click.ClickException(error.for_user()) from error
