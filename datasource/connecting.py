"""Says how to connect to Pravega by options: addresses, login, and how long a first contact may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.credentials import BasicCredentials, Credentials, TokenCredentials, load_credentials
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql import options as o

FIRST_CONTACT = 10.0
"""Seconds for which servers that have never answered are tried; see `read_first_contact`."""

_Logins: TypeAlias = tuple[tuple[tuple[o.Option[str | None], ...], Callable[..., Credentials]], ...]
_LOGINS: _Logins = (
    ((o.USERNAME, o.PASSWORD), BasicCredentials),
    ((o.AUTH_TYPE, o.AUTH_TOKEN), TokenCredentials),
    ((o.CREDENTIALS,), load_credentials),
)
"""The ways to log in: options that belong together, and what makes credentials of their values."""
_CONFLUENT_LOGINS: _Logins = (((o.CONFLUENT_USERNAME, o.CONFLUENT_PASSWORD), BasicCredentials),)


def read_first_contact(options: o.Options) -> float | None:
    """Return how long a command or a session tries servers that have never answered; None: for `retry-timeout`.

    Their addresses may be wrong, and an error loses nothing. A `retry-timeout` that is set takes precedence.
    """
    return None if options.is_set(o.RETRY_TIMEOUT) else FIRST_CONTACT


def read_client_config(options: o.Options) -> ClientConfig:
    """Return how to connect; raises InvalidOptionError for options that are missing or contradict each other."""
    return ClientConfig(
        controller_uri=options.require(o.CONTROLLER_URI),
        registry_uri=options.get(o.SCHEMA_REGISTRY_URI),
        credentials=read_credentials(options),
        confluent_uri=options.get(o.CONFLUENT_URI),
        confluent_credentials=read_credentials(options, _CONFLUENT_LOGINS),
        trust_store=options.get(o.TRUST_STORE),
        validate_hostname=options.get(o.VALIDATE_HOSTNAME),
        allow_plain_registry=options.get(o.ALLOW_PLAIN_REGISTRY),
        request_timeout=options.get(o.REQUEST_TIMEOUT).total_seconds(),
        retry_timeout=options.get(o.RETRY_TIMEOUT).total_seconds(),
    )


def read_credentials(options: o.Options, logins: _Logins = _LOGINS) -> Credentials | None:
    """Read the login. The one in the strongest place counts, so conf can replace that of the environment.

    Raises InvalidOptionError when it is incomplete or given in two ways.
    """
    ranks = [max(map(options.source, keys)) for keys, _ in logins]
    strongest = max(ranks)
    if strongest is o.Source.DEFAULT:
        return None
    chosen = [way for way, rank in zip(logins, ranks, strict=True) if rank == strongest]
    if len(chosen) > 1:
        keys = " and ".join(f"'{keys[0].key}'" for keys, _ in chosen)
        raise InvalidOptionError(
            f"The login is given in more than one way: {keys}. Set one of "
            "'security.username' with 'security.password', 'security.auth-type' with 'security.auth-token', "
            "or 'security.credentials'."
        )
    ((parts, make),) = chosen
    values = [options.get(part) for part in parts]
    if None in values:
        missing, present = sorted(parts, key=lambda part: options.get(part) is not None)
        raise InvalidOptionError(f"'{present.key}' is set without '{missing.key}'; set both or neither.")
    return make(*values)
