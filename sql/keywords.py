"""Options as Python's keyword arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark_pravega.errors import InvalidOptionError

from .options import OPTIONS


def settings_from_keywords(keywords: Mapping[str, object]) -> dict[str, str]:
    """Turn Python keyword arguments into option texts: `request_timeout="5s"` sets `request-timeout`.

    Both `.` and `-` of a key are written `_`; a key as it stands may be given by `**{"request-timeout": "5s"}`.
    """
    known = {re.sub(r"[.-]", "_", key): key for key in OPTIONS}
    settings = {}
    for keyword, value in keywords.items():
        if value is None:
            continue
        if not isinstance(value, str | int | bool):
            raise InvalidOptionError(
                f"The value of '{keyword}' is a {type(value).__name__}; give text as in a conf file, or a number."
            )
        settings[known.get(keyword, keyword)] = str(value).lower() if isinstance(value, bool) else str(value)
    return settings
