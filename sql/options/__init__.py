"""Every option of this package: its key, type, default, places and meaning.

Each module declares the options of one kind, and this package has all their names. Nothing else reads
option text. `resolve` takes the texts of all places, refuses what is unknown, misplaced
or ill-typed, and returns `Options`, from which values are read by declaration and so with their type:

    options = resolve(conf={"controller-uri": "tcp://pravega:9090"}, read={"read-window": "8m"})
    options.get(READ_WINDOW)  # 8388608

The strongest place counts: read or write option, table property, catalog conf, environment, default.
`docs/options.md` is generated from this package. Options that belong together are read together, by
`read_client_config` and `read_table_settings` of `datasource/`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark_pravega.errors import InvalidOptionError

from ..option_types import Option as Option
from ..option_types import SettableAs as SettableAs
from ..resolution import Options as Options
from ..resolution import Resolution, normalize_key
from ..resolution import Source as Source
from . import connection_options, property_options, query_options
from .connection_options import *  # noqa: F403
from .connection_options import ADDRESSES, CREDENTIALS, LAKE_CATALOG, LOGIN, TRUST
from .property_options import *  # noqa: F403
from .query_options import *  # noqa: F403

_KINDS = (connection_options, property_options, query_options)
OPTIONS: dict[str, Option[Any]] = {
    option.key: option for kind in _KINDS for option in vars(kind).values() if isinstance(option, Option)
}
"""All options by key, in the order in which they are declared."""

SESSION_CONNECTIONS = "spark.pravega.session-connections"
"""The conf of a driver whose sessions may say how to connect, and which programs it runs. The adapter reads it."""
_DYNAMIC_CREDENTIALS = "pravega_client_auth_loadDynamic"


def find_option(key: str) -> Option[Any] | None:
    """Return the option of a key in any spelling, or None."""
    return OPTIONS.get(normalize_key(key, OPTIONS))


def resolve(
    *,
    conf: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    read: Mapping[str, str] | None = None,
    write: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    is_conf_of_driver: bool = True,
) -> Options:
    """Check and parse the options of all places, with keys in any case. If `env` is None, use the process environment.

    Environment and conf belong to whoever runs the driver, so one may complete the other. What a statement says of the
    connection is completed by neither, nor by the environment what a conf says that a statement or a program brought
    along (`is_conf_of_driver` is false): see `_list_withheld`.

    Raises InvalidOptionError, which names the key, the value (never a secret), what is allowed and, for an unknown
    key, the nearest valid one.
    """
    environment = os.environ if env is None else env
    resolution = Resolution(OPTIONS, environment)
    resolution.add(SettableAs.READ, Source.QUERY, read or {})
    resolution.add(SettableAs.WRITE, Source.QUERY, write or {})
    resolution.add(SettableAs.PROPERTY, Source.PROPERTY, properties or {})
    resolution.add(SettableAs.CATALOG, Source.CATALOG, _gather_lake(conf or {}))
    withheld = _list_withheld(resolution.options(), Source.QUERY if is_conf_of_driver else Source.CATALOG)
    resolution.add_environment(withheld)
    options = resolution.options()
    if (
        environment.get(_DYNAMIC_CREDENTIALS, "").lower() == "true"
        and CREDENTIALS.key not in withheld
        and not any(options.source(option) > Source.ENVIRONMENT for option in LOGIN)
    ):
        raise InvalidOptionError(
            f"The environment variable {_DYNAMIC_CREDENTIALS}=true asks for a Java class of credentials, "
            "which Python cannot load. Unset it and name a Python plug-in with "
            f"'{CREDENTIALS.key}' (module:attribute)."
        )
    return options


def _gather_lake(conf: Mapping[str, str]) -> dict[str, str]:
    """Return a conf with all properties of the lake's catalog as one option."""
    gathered = {key: text for key, text in conf.items() if not _is_of_lake(key)}
    lake = {key.partition(".")[2]: text for key, text in conf.items() if _is_of_lake(key)}
    return gathered | ({LAKE_CATALOG.key: json.dumps(lake, sort_keys=True)} if lake else {})


def _is_of_lake(key: str) -> bool:
    return key.lower().startswith(LAKE_CATALOG.key.removesuffix("*"))


def resolve_script(settings: Mapping[str, str]) -> Options:
    """Check and parse the settings of a script. Raises InvalidOptionError."""
    resolution = Resolution(OPTIONS, {})
    resolution.add(SettableAs.SCRIPT, Source.QUERY, settings)
    return resolution.options()


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


def _list_withheld(options: Options, foreign: Source) -> frozenset[str]:
    """Return the keys whose values in the environment do not count, given what places from `foreign` on say.

    The environment's login goes only to servers that the environment or the driver's conf names and trusts. Otherwise
    a statement that names another address would get it. The environment's lake does not count either: tables of other
    servers do not decide what is read of it.
    """

    def is_said(kind: tuple[Option[Any], ...]) -> bool:
        return any(options.source(option) >= foreign for option in kind)

    if is_said(ADDRESSES):
        return frozenset(option.key for option in (*ADDRESSES, *LOGIN, *TRUST, LAKE_CATALOG))
    return frozenset(option.key for option in LOGIN) if is_said((*LOGIN, *TRUST)) else frozenset()


def find_refused_settings(keys: Iterable[str]) -> list[str]:
    """Return those of a catalog's keys that count only as the driver's conf had them when the driver started.

    An empty key stands for the catalog itself.
    """
    options = {key: LAKE_CATALOG if _is_of_lake(key) else find_option(key) for key in keys}
    return [
        key if option is None else option.key
        for key, option in options.items()
        if not key or (option is not None and SettableAs.SESSION not in option.allowed)
    ]
