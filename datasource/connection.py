"""Makes the configuration of a connection from options."""

from __future__ import annotations

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.credentials import BasicCredentials, Credentials, TokenCredentials, load_credentials
from pyspark_pravega.sql.connection_settings import BasicLogin, Login, PlugInLogin, TokenLogin, connection_settings
from pyspark_pravega.sql.options import RETRY_TIMEOUT, Options

FIRST_CONTACT = 10.0
"""Seconds for which servers are tried that have never answered. See `first_contact`."""


def first_contact(options: Options) -> float | None:
    """Return for how long a command or a session tries servers that have never answered; None: for `retry-timeout`.

    Their addresses may be wrong, and nothing is lost by an error. Who sets `retry-timeout` has said how long.
    """
    return None if options.is_set(RETRY_TIMEOUT) else FIRST_CONTACT


def client_config(options: Options) -> ClientConfig:
    """Return how to connect; raises InvalidOptionError when something is missing or contradicts itself."""
    settings = connection_settings(options)
    return ClientConfig(
        controller_uri=settings.controller_uri,
        registry_uri=settings.schema_registry_uri,
        credentials=_credentials(settings.login),
        trust_store=settings.trust_store,
        validate_hostname=settings.validate_hostname,
        request_timeout=settings.request_timeout,
        retry_timeout=settings.retry_timeout,
    )


def _credentials(login: Login | None) -> Credentials | None:
    match login:
        case None:
            return None
        case BasicLogin(username, password):
            return BasicCredentials(username, password)
        case TokenLogin(method, token):
            return TokenCredentials(method, token)
        case PlugInLogin(path):
            return load_credentials(path)
