"""Payload bytes <-> Arrow batches, schema texts <-> Spark types. No Spark session, no connections.

A distribution that brings its own format imports what it needs from here (docs/formats/own.md):

    from pyspark_pravega.formats import BadEvent, Decoder, Encoder, EventBuffer, Format, Layout

Readers of the code start at `core.format`: the protocols and the table of formats.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .changes.feed import ChangeFormat, changelog_schema
    from .core.arrow_types import arrow_schema
    from .core.events import EventBuffer, EventPositions
    from .core.format import BadEvent, Decoder, Encoder, Format, Layout, Resolve, Settings, WriterSchema

__all__ = [
    "BadEvent",
    "ChangeFormat",
    "Decoder",
    "Encoder",
    "EventBuffer",
    "EventPositions",
    "Format",
    "Layout",
    "Resolve",
    "Settings",
    "WriterSchema",
    "arrow_schema",
    "changelog_schema",
]

_MODULES = {
    "ChangeFormat": "changes.feed",
    "changelog_schema": "changes.feed",
    "arrow_schema": "core.arrow_types",
    "EventBuffer": "core.events",
    "EventPositions": "core.events",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that nobody waits for modules that they do not need."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'core.format')}"), name)
