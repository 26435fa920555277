"""Stops processes of a driver under test at named places of the package, until the test has done its harm there.

Python imports this module by itself where the directory is on PYTHONPATH: in the catalog service and in the workers of
tasks. Nothing of the package knows of it. The directory that `FAULT_CONTROL` names is all that it shares with the
test: an empty file `armed/<fault>,<point>,<passes>` asks the one that comes to the point after so many passes to report
by `reached/<fault>,<process id>`, and to go on when `go/<fault>` is there. Renaming is atomic, so that each fault has
one victim.

`FAULT_ROUTES`, pairs of addresses, sends connections to segment stores through the test's proxies.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

WAIT_SECONDS = 60.0


class Control:
    """The directory by which test and processes speak."""

    def __init__(self, directory: Path) -> None:
        self._armed, self._reached, self._go = (directory / name for name in ("armed", "reached", "go"))

    def passes(self, point: str) -> None:
        """Tell that this process passes a point, and wait there if the test wants that."""
        for name in os.listdir(self._armed):
            fault, armed, passes = name.split(",")
            if armed != point:
                continue
            left = int(passes)
            target = self._reached / f"{fault},{os.getpid()}"
            if left:
                target = self._armed / f"{fault},{armed},{left - 1}"
            try:
                os.rename(self._armed / name, target)
            except FileNotFoundError:
                continue  # another process was faster
            if not left:
                self._wait(fault)
            return

    def _wait(self, fault: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not (self._go / fault).exists() and time.monotonic() < deadline:
            time.sleep(0.005)


def wrapped(
    function: Callable[..., Any], before: str | None, after: str | None, control: Control
) -> Callable[..., Any]:
    """Return a function that passes points before and after this one, unless it raises."""

    def passing(*arguments: Any, **keywords: Any) -> Any:
        if before is not None:
            control.passes(before)
        result = function(*arguments, **keywords)
        if after is not None:
            control.passes(after)
        return result

    passing.__name__, passing.__doc__ = function.__name__, function.__doc__
    return passing


class Wrapper(importlib.abc.MetaPathFinder):
    """Finds modules as before, and wraps some of their functions when they have been loaded."""

    def __init__(self, points: Sequence[str], control: Control) -> None:
        """`points` are texts `<name>=<module>:<function or class.method>:<before or after>`."""
        self._control = control
        self._wanted: dict[str, dict[str, dict[str, str]]] = {}
        for text in points:
            point, _, place = text.partition("=")
            module, function, moment = place.split(":")
            self._wanted.setdefault(module, {}).setdefault(function, {})[moment] = point

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self._wanted:
            return None
        functions = self._wanted.pop(name)
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None, name
        load = spec.loader.exec_module

        def load_and_wrap(module: ModuleType) -> None:
            load(module)
            for path, moments in functions.items():
                owner, _, attribute = path.rpartition(".")
                holder = getattr(module, owner) if owner else module
                found = inspect.getattr_static(holder, attribute)
                inner = found.__func__ if isinstance(found, classmethod) else found
                new = wrapped(inner, moments.get("before"), moments.get("after"), self._control)
                setattr(holder, attribute, classmethod(new) if isinstance(found, classmethod) else new)

        spec.loader.exec_module = load_and_wrap  # type: ignore[method-assign]
        return spec


def reroute(routes: dict[tuple[str, int], tuple[str, int]]) -> None:
    """Open connections to other addresses than asked for."""
    connect = socket.create_connection

    def rerouted(address: tuple[str, int], *arguments: Any, **keywords: Any) -> socket.socket:
        return connect(routes.get(address, address), *arguments, **keywords)

    socket.create_connection = rerouted  # type: ignore[assignment]


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    """Wrap what the test has named for this kind of process."""
    if "pyspark_pravega.catalog.service" in sys.orig_argv:
        points = os.environ["FAULT_POINTS_SERVICE"]
    elif "pyspark_pravega.datasource.worker_daemon" in sys.orig_argv:
        points = os.environ["FAULT_POINTS_WORKER"]
    else:
        return
    sys.meta_path.insert(0, Wrapper(points.split(), Control(Path(os.environ["FAULT_CONTROL"]))))
    routes = [pair.partition("=") for pair in os.environ["FAULT_ROUTES"].split()]
    reroute({address(there): address(proxy) for there, _, proxy in routes})


if "FAULT_CONTROL" in os.environ:
    main()
