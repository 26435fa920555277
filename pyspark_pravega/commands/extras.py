"""Says which extra of this package a command needs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable

from pyspark_pravega.errors import SetupError


def require_extra(extra: str, modules: Iterable[str]) -> None:
    """Raise SetupError if this Python lacks a module of an extra of this package."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise SetupError(
            f"`pyspark-pravega {extra}` needs packages that {sys.executable} does not have: {', '.join(missing)}. "
            f'Run: pip install "pyspark-pravega[{extra}]"'
        )
