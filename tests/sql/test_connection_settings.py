"""The login: which way counts, and what a half-given or doubled one is answered with."""

from __future__ import annotations

import pytest

from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql.connection_settings import (
    BasicLogin,
    PlugInLogin,
    TokenLogin,
    read_connection_settings,
    read_login,
)
from pyspark_pravega.sql.options import resolve

URI = {"controller-uri": "tcp://localhost:9090"}


def test_defaults() -> None:
    settings = read_connection_settings(resolve(conf=URI, env={}))
    assert settings.login is None and settings.trust_store is None and settings.validate_hostname
    assert (settings.request_timeout, settings.retry_timeout) == (30.0, 60.0)


def test_the_controller_is_needed() -> None:
    with pytest.raises(InvalidOptionError, match="controller-uri"):
        read_connection_settings(resolve(env={}))


def test_the_three_ways() -> None:
    basic = resolve(conf={"security.username": "u", "security.password": "p"}, env={})
    assert read_login(basic) == BasicLogin("u", "p")
    token = resolve(env={"pravega_client_auth_method": "Bearer", "pravega_client_auth_token": "t"})
    assert read_login(token) == TokenLogin("Bearer", "t")
    assert read_login(resolve(conf={"security.credentials": "a.b:C"}, env={})) == PlugInLogin("a.b:C")


def test_the_strongest_place_counts() -> None:
    env = {"pravega_client_auth_method": "Basic", "pravega_client_auth_token": "from-env"}
    conf = {"security.username": "u", "security.password": "p"}
    assert read_login(resolve(conf=conf, env=env)) == BasicLogin("u", "p")
    read = {"security.credentials": "a:B"}
    assert read_login(resolve(conf=conf, read=read, env=env)) == PlugInLogin("a:B")


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
        read_login(resolve(conf=conf, env={}))


def test_no_secret_is_printed() -> None:
    assert "xyzzy" not in repr(BasicLogin("u", "xyzzy")) + repr(TokenLogin("Basic", "xyzzy"))
