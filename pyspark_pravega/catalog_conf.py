"""The Spark confs that make Pravega a catalog of a session, the same for every front end.

Confs travel on command lines and are shown by Spark's UI, so a secret is never among them: it goes into an
environment variable, and the conf refers to that as `${env:NAME}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_pravega.adapter import CATALOG_CLASS
from pyspark_pravega.errors import InvalidNameError, InvalidOptionError
from pyspark_pravega.sql.options import OPTIONS, resolve

PREFIX = "spark.sql.catalog."
DAEMON_CONF = "spark.python.daemon.module"
DAEMON_MODULE = "pyspark_pravega.datasource.worker_daemon"
"""What forks Python workers on executors, unless the user has chosen another: with all imports of our tasks done."""


@dataclass(frozen=True)
class CatalogConf:
    """Confs of one catalog, and the environment variables that they refer to."""

    conf: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)


def catalog_conf(catalog: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> CatalogConf:
    """Check the settings of a catalog and turn them into confs.

    Raises InvalidNameError for a name Spark cannot use, InvalidOptionError for a wrong setting.
    """
    check_catalog_name(catalog)
    resolve(conf=settings, env=environment)
    conf = {PREFIX + catalog: CATALOG_CLASS}
    secrets: dict[str, str] = {}
    for key, text in settings.items():
        name = f"{PREFIX}{catalog}.{key.lower()}"
        conf[name], moved = hide_secret(name, text)
        secrets.update(moved)
    return CatalogConf(conf, secrets)


def hide_secret(name: str, text: str) -> tuple[str, dict[str, str]]:
    """Replace the text of a secret conf by a reference; returns it and the variable it refers to."""
    option = next((OPTIONS[key] for key in OPTIONS if name.lower().endswith("." + key)), None)
    if option is None or not option.secret or not name.startswith(PREFIX) or text.startswith("${env:"):
        return text, {}
    variable = re.sub(r"[^A-Z0-9]+", "_", name.upper())
    return "${env:" + variable + "}", {variable: text}


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


def check_catalog_name(catalog: str) -> None:
    """Raise InvalidNameError unless Spark can use the name for a catalog."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", catalog):
        raise InvalidNameError(
            f"The catalog name '{catalog}' is not usable; letters, digits and '_' are, for example pravega."
        )
    if catalog in ("spark_catalog", "system", "session"):
        raise InvalidNameError(f"The catalog name '{catalog}' is Spark's own; choose another, for example pravega.")
