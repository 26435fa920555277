"""Makes the configuration of a connection from options."""

from __future__ import annotations

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.credentials import BasicCredentials, Credentials, TokenCredentials, load_credentials
from pyspark_pravega.sql.connection_settings import BasicLogin, Login, PlugInLogin, TokenLogin, connection_settings
from pyspark_pravega.sql.options import Options


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
