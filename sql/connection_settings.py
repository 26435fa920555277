"""Read from options, or from Python keyword arguments, how to reach the servers, and check that they fit together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark_pravega.errors import InvalidOptionError

from . import options as o
from .options import OPTIONS


@dataclass(frozen=True)
class BasicLogin:
    """User name and password."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class TokenLogin:
    """A ready-made token and the scheme that it is sent with."""

    method: str
    token: str = field(repr=False)


@dataclass(frozen=True)
class PlugInLogin:
    """Credentials that the user's own code makes, named `module:attribute`."""

    path: str


Login = BasicLogin | TokenLogin | PlugInLogin


@dataclass(frozen=True)
class ConnectionSettings:
    """What a client needs to connect. Times are in seconds; `trust_store` is the path of a PEM file."""

    controller_uri: str
    schema_registry_uri: str | None
    login: Login | None
    trust_store: str | None
    validate_hostname: bool
    request_timeout: float
    retry_timeout: float


def read_connection_settings(options: o.Options) -> ConnectionSettings:
    """Read the connection from resolved options.

    Raises InvalidOptionError when no controller is set, or when the login is incomplete or given in two ways.
    """
    return ConnectionSettings(
        controller_uri=options.require(o.CONTROLLER_URI),
        schema_registry_uri=options.get(o.SCHEMA_REGISTRY_URI),
        login=read_login(options),
        trust_store=options.get(o.TRUST_STORE),
        validate_hostname=options.get(o.VALIDATE_HOSTNAME),
        request_timeout=options.get(o.REQUEST_TIMEOUT).total_seconds(),
        retry_timeout=options.get(o.RETRY_TIMEOUT).total_seconds(),
    )


def read_login(options: o.Options) -> Login | None:
    """Read the login. The one in the strongest place counts, so conf can replace that of the environment."""
    ways: list[tuple[tuple[o.Option[str | None], ...], Callable[[], Login]]] = [
        (
            (o.USERNAME, o.PASSWORD),
            lambda: BasicLogin(
                _require_part(options, o.USERNAME, o.PASSWORD), _require_part(options, o.PASSWORD, o.USERNAME)
            ),
        ),
        (
            (o.AUTH_TYPE, o.AUTH_TOKEN),
            lambda: TokenLogin(
                _require_part(options, o.AUTH_TYPE, o.AUTH_TOKEN), _require_part(options, o.AUTH_TOKEN, o.AUTH_TYPE)
            ),
        ),
        ((o.CREDENTIALS,), lambda: PlugInLogin(options.require(o.CREDENTIALS))),
    ]
    ranks = [max(options.source(option) for option in keys) for keys, _ in ways]
    strongest = max(ranks)
    if strongest is o.Source.DEFAULT:
        return None
    chosen = [way for way, rank in zip(ways, ranks, strict=True) if rank == strongest]
    if len(chosen) > 1:
        keys = " and ".join(f"'{keys[0].key}'" for keys, _ in chosen)
        raise InvalidOptionError(
            f"The login is given in more than one way: {keys}. Set one of "
            "'security.username' with 'security.password', 'security.auth-type' with 'security.auth-token', "
            "or 'security.credentials'."
        )
    return chosen[0][1]()


def _require_part(options: o.Options, wanted: o.Option[str | None], given: o.Option[str | None]) -> str:
    value = options.get(wanted)
    if value is None:
        raise InvalidOptionError(f"'{given.key}' is set without '{wanted.key}'; set both or neither.")
    return value


def convert_keywords(keywords: Mapping[str, object]) -> dict[str, str]:
    """Turn Python keyword arguments into option texts: `request_timeout="5s"` sets `request-timeout`.

    Both `.` and `-` of a key become `_`. A key can also be given unchanged: `**{"request-timeout": "5s"}`.
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
