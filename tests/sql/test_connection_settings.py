"""The login: which way counts, and what a half-given or doubled one is answered with."""

from __future__ import annotations

import pytest

from pyspark_pravega.client.credentials import BasicCredentials, TokenCredentials
from pyspark_pravega.datasource.connecting import read_client_config, read_credentials
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql.options import AUTH_TOKEN, CONTROLLER_URI, OPTIONS, Source, resolve

URI = {"controller-uri": "tcp://localhost:9090"}


class Login:
    """A plug-in."""

    def authorization(self) -> str:
        return "Bearer own"


PLUG_IN = f"{__name__}:Login"


def test_defaults() -> None:
    settings = read_client_config(resolve(conf=URI, env={}))
    assert settings.credentials is None and settings.trust_store is None and settings.validate_hostname
    assert (settings.request_timeout, settings.retry_timeout) == (30.0, 60.0)


def test_the_controller_is_needed() -> None:
    with pytest.raises(InvalidOptionError, match="controller-uri"):
        read_client_config(resolve(env={}))


def test_the_three_ways() -> None:
    basic = resolve(conf={"security.username": "u", "security.password": "p"}, env={})
    assert read_credentials(basic) == BasicCredentials("u", "p")
    token = resolve(env={"pravega_client_auth_method": "Bearer", "pravega_client_auth_token": "t"})
    assert read_credentials(token) == TokenCredentials("Bearer", "t")
    assert isinstance(read_credentials(resolve(conf={"security.credentials": PLUG_IN}, env={})), Login)


def test_the_strongest_place_counts() -> None:
    env = {"pravega_client_auth_method": "Basic", "pravega_client_auth_token": "from-env"}
    conf = {"security.username": "u", "security.password": "p"}
    assert read_credentials(resolve(conf=conf, env=env)) == BasicCredentials("u", "p")
    read = {"security.auth-type": "Bearer", "security.auth-token": "t"}
    assert read_credentials(resolve(conf=conf, read=read, env=env)) == TokenCredentials("Bearer", "t")
    assert isinstance(read_credentials(resolve(conf={"security.credentials": PLUG_IN}, env=env)), Login)


ENVIRONMENT = {
    "PRAVEGA_CONTROLLER_URI": "tls://own:9090",
    "PRAVEGA_SCHEMA_REGISTRY_URI": "https://own:9092",
    "PRAVEGA_TRUST_STORE": "/own.pem",
    "pravega_client_auth_method": "Basic",
    "pravega_client_auth_token": "from-env",
    "PRAVEGA_LAKE": '{"type": "sql"}',
}
OWN_SERVERS = {"PRAVEGA_CONTROLLER_URI", "PRAVEGA_SCHEMA_REGISTRY_URI", "PRAVEGA_LAKE"}
OTHER_LOGIN = {"security.auth-type": "Bearer", "security.auth-token": "t"}


@pytest.mark.parametrize(
    ("settings", "counting"),
    [
        ({"controllerUri": "tls://other:9090"}, set()),
        ({"schema-registry-uri": "https://other:9092"}, set()),
        ({"controller-uri": "tls://other:9090", **OTHER_LOGIN}, set()),
        (OTHER_LOGIN, {*OWN_SERVERS, "PRAVEGA_TRUST_STORE"}),
        ({"security.trust-store": "/other.pem"}, OWN_SERVERS),
        ({"security.validate-hostname": "false"}, {*OWN_SERVERS, "PRAVEGA_TRUST_STORE"}),
        ({"request-timeout": "5s"}, set(ENVIRONMENT)),
    ],
)
def test_what_a_statement_says_is_not_completed_by_the_environment(
    settings: dict[str, str], counting: set[str]
) -> None:
    for places in ({"read": settings}, {"write": settings}, {"conf": settings, "is_conf_of_driver": False}):
        options = resolve(**places, env=ENVIRONMENT)
        found = {option.env for option in OPTIONS.values() if options.source(option) is Source.ENVIRONMENT}
        assert found == counting, places
    # The driver's conf and its environment belong to the same people.
    options = resolve(conf=settings, env=ENVIRONMENT)
    assert options.is_set(AUTH_TOKEN) and options.is_set(CONTROLLER_URI)
    with pytest.raises(InvalidOptionError, match="PRAVEGA_CONTROLLER_URI does not count beside an address"):
        resolve(read={"schema-registry-uri": "https://other:9092"}, env=ENVIRONMENT).require(CONTROLLER_URI)


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"security.username": "u"}, "'security.username' is set without 'security.password'"),
        ({"security.password": "p"}, "'security.password' is set without 'security.username'"),
        ({"security.auth-type": "Basic"}, "without 'security.auth-token'"),
        ({"security.auth-token": "t"}, "without 'security.auth-type'"),
        (
            {"security.username": "u", "security.password": "p", "security.credentials": "a:B"},
            "in more than one way: 'security.username' and 'security.credentials'",
        ),
    ],
)
def test_half_given_or_doubled(conf: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        read_credentials(resolve(conf=conf, env={}))


def test_no_secret_is_printed() -> None:
    assert "xyzzy" not in repr(BasicCredentials("u", "xyzzy")) + repr(TokenCredentials("Bearer", "xyzzy"))


def test_credentials_in_an_address_are_refused_with_the_option_for_them() -> None:
    with pytest.raises(InvalidOptionError, match=r"must not hold credentials.*confluent\.username") as caught:
        resolve(conf=URI | {"confluent.registry-uri": "https://key:xyzzy@r"}, env={})
    assert "xyzzy" not in str(caught.value)
