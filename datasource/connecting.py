"""Says how to connect to Pravega by options: addresses, login, and how long a first contact may take."""

from __future__ import annotations

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.credentials import BasicCredentials, Credentials, TokenCredentials, load_credentials
from pyspark_pravega.sql.connection_settings import BasicLogin, Login, PlugInLogin, TokenLogin, read_connection_settings
from pyspark_pravega.sql.options import RETRY_TIMEOUT, Options

FIRST_CONTACT = 10.0
"""Seconds for which servers that have never answered are tried; see `read_first_contact`."""


def read_first_contact(options: Options) -> float | None:
    """Return how long a command or a session tries servers that have never answered; None: for `retry-timeout`.

    Their addresses may be wrong, and an error loses nothing. A `retry-timeout` that is set takes precedence.
    """
    return None if options.is_set(RETRY_TIMEOUT) else FIRST_CONTACT


def read_client_config(options: Options) -> ClientConfig:
    """Return how to connect; raises InvalidOptionError for options that are missing or contradict each other."""
    settings = read_connection_settings(options)
    return ClientConfig(
        controller_uri=settings.controller_uri,
        registry_uri=settings.schema_registry_uri,
        credentials=_make_credentials(settings.login),
        trust_store=settings.trust_store,
        validate_hostname=settings.validate_hostname,
        request_timeout=settings.request_timeout,
        retry_timeout=settings.retry_timeout,
    )


def _make_credentials(login: Login | None) -> Credentials | None:
    match login:
        case None:
            return None
        case BasicLogin(username, password):
            return BasicCredentials(username, password)
        case TokenLogin(method, token):
            return TokenCredentials(method, token)
        case PlugInLogin(path):
            return load_credentials(path)
