"""Places that many options share."""

from __future__ import annotations

from ..option_types import SettableAs

QUERY = SettableAs.READ | SettableAs.WRITE
CONNECTION = SettableAs.CATALOG | QUERY
TABLE = SettableAs.PROPERTY | QUERY
