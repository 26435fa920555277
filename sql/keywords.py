"""Turns Python keyword arguments into option texts."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark_pravega.errors import InvalidOptionError

from .options import OPTIONS


def convert_keywords(keywords: Mapping[str, object]) -> dict[str, str]:
    """Turn Python keyword arguments into option texts: `request_timeout="5s"` sets `request-timeout`.

    Both `.` and `-` of a key become `_`. A key can also be given unchanged: `**{"request-timeout": "5s"}`.
    """
    keys = {re.sub(r"[.-]", "_", key): key for key in OPTIONS}
    settings = {}
    for keyword, value in keywords.items():
        if value is None:
            continue
        if not isinstance(value, str | int | bool):
            raise InvalidOptionError(
                f"The value of '{keyword}' is a {type(value).__name__}; give text as in a conf file, or a number."
            )
        settings[keys.get(keyword, keyword)] = str(value).lower() if isinstance(value, bool) else str(value)
    return settings
