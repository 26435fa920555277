"""Build the Spark confs that make Pravega a catalog of a session, the same for every front end.

Confs travel on command lines and are shown by Spark's UI, so a secret is never among them: it goes into an
environment variable, and the conf refers to that as `${env:NAME}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_pravega.spark.home import CATALOG_CLASS
from pyspark_pravega.sql.identifiers import check_catalog_name
from pyspark_pravega.sql.options import OPTIONS, resolve

PREFIX = "spark.sql.catalog."
DAEMON_CONF = "spark.python.daemon.module"
DAEMON_MODULE = "pyspark_pravega.datasource.worker_daemon"
"""The module that forks Python workers on executors, with our tasks' imports done, unless the user chooses another."""


@dataclass(frozen=True)
class CatalogConf:
    """Confs of one catalog, and the environment variables that they refer to."""

    conf: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)


def build_catalog_conf(catalog: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> CatalogConf:
    """Check the settings of a catalog and turn them into confs.

    Raises InvalidNameError for a name that Spark cannot use, InvalidOptionError for a wrong setting.
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
    """Replace the text of a secret conf by a reference; return this and the variable that it refers to."""
    option = next((OPTIONS[key] for key in OPTIONS if name.lower().endswith("." + key)), None)
    if option is None or not option.secret or not name.startswith(PREFIX) or text.startswith("${env:"):
        return text, {}
    variable = re.sub(r"[^A-Z0-9]+", "_", name.upper())
    return "${env:" + variable + "}", {variable: text}
