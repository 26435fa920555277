"""Connections of the service: shared by what connects in the same way, and bounded in number."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pyspark_pravega.catalog.storage import catalogs
from pyspark_pravega.catalog.storage.catalogs import KEPT, Connections
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.errors import ClientClosedError
from tests.catalog.storage.test_user_logins import write_logins


def conf(token: int, **more: str) -> dict[str, str]:
    """A catalog's conf with a token of its own."""
    login = {"security.auth-type": "Bearer", "security.auth-token": f"t{token}"}
    return {"controller-uri": "tcp://localhost:1", "retry-timeout": "100ms", **login, **more}


def is_closed(pravega: Pravega) -> bool:
    try:
        pravega.controller.list_scopes()
    except ClientClosedError:
        return True
    except Exception:
        return False
    raise AssertionError("there is no controller")


def test_ways_to_connect_are_bounded() -> None:
    """A session of a long-lived driver may bring a new token each."""
    connections = Connections()
    seen = []
    for token in range(KEPT * 3):
        with connections.catalog(conf(token)) as catalog:
            assert not is_closed(catalog.pravega)  # which connects
            seen.append(catalog.pravega)
    assert len(connections._by_settings) <= KEPT + 1
    assert [is_closed(each) for each in seen[: KEPT * 2 - 1]] == [True] * (KEPT * 2 - 1)
    assert not is_closed(seen[-1])
    connections.close()
    assert is_closed(seen[-1])


def test_one_way_is_one_connection() -> None:
    connections = Connections()
    with connections.catalog(conf(1)) as first, connections.catalog(conf(1, mode="dropmalformed")) as second:
        assert first.pravega is second.pravega
        with connections.catalog(conf(2)) as third:
            assert third.pravega is not first.pravega
    assert len(connections._by_settings) == 2
    connections.close()


def test_users_do_not_have_the_drivers_login_for_confluents_registry(tmp_path: Path) -> None:
    logins = write_logins(tmp_path / "logins.json", {"ann": "hers"})
    login = {"confluent.username": "key", "confluent.password": "s3cret"}
    more = {"confluent.registry-uri": "http://localhost:1", "security.user-logins": str(logins), **login}
    connections = Connections()
    with connections.catalog(conf(1, **more)) as driver:
        assert driver.pravega.config.confluent_credentials is not None
    with connections.catalog(conf(1, **more, **{"session-user": "ann"})) as ann:
        assert ann.pravega.config.confluent_uri == "http://localhost:1"
        assert ann.pravega.config.confluent_credentials is None
    connections.close()


def test_of_two_that_connect_at_once_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Pravega] = []
    both = threading.Barrier(2, timeout=30)

    def slow(*arguments: Any, **keywords: Any) -> Pravega:
        both.wait()
        pravega = connect(*arguments, **keywords)
        assert not is_closed(pravega)  # which connects
        made.append(pravega)
        return pravega

    def use(_: int) -> Pravega:
        with connections.catalog(conf(1)) as catalog:
            return catalog.pravega

    monkeypatch.setattr(catalogs, "connect", slow)
    connections = Connections()
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(use, range(2))
    assert first is second and len(made) == 2
    assert [is_closed(each) for each in made] == [each is not first for each in made]
    connections.close()


@pytest.mark.parametrize("user", ["call", "INSERT"])
def test_what_is_used_stays_open(user: str) -> None:
    connections = Connections()
    used = connections.catalog(conf(-1))
    catalog = used.__enter__()
    if user == "INSERT":
        release = catalog.hold()
        used.__exit__(None, None, None)
    for token in range(KEPT * 2):
        with connections.catalog(conf(token)):
            pass
    assert not is_closed(catalog.pravega)
    if user == "INSERT":
        release()
    else:
        used.__exit__(None, None, None)
    for token in range(KEPT * 2):
        with connections.catalog(conf(token)):
            pass
    assert is_closed(catalog.pravega)
