"""The server of the web pages, for tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from pyspark_pravega.catalog import PravegaCatalog


@contextmanager
def serving(
    catalog: PravegaCatalog, patience: float = 60, check: Callable[[], Iterable[Any]] = tuple
) -> Iterator[httpx.Client]:
    """Serve the pages of a catalog on a free port, and return a client of them. Lists wait until they are complete."""
    pytest.importorskip("starlette", reason="the extra 'ui' is not installed: make setup")
    from pyspark_pravega.browser.application import make_application, make_server
    from pyspark_pravega.listening import open_socket

    with open_socket("127.0.0.1", 0) as listening:
        application = make_application(catalog, controller="tcp://localhost:9090", patience=patience, check=check)
        server = make_server(application)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=60) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()
