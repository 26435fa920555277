"""The catalog service, killed after a certain one of the steps by which its statements change something.

A step is a call that changes what controller, schema registry or key-value tables keep. `dying_python` makes what is
given as the conf `python` of a catalog; the next statement of that catalog starts the service again.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

DIRECTORY = "DYING_SERVICE"
"""The environment variable that names the directory by which the test says when, and is told where."""
STEPS = {
    "controller": (
        "create_scope",
        "delete_scope",
        "create_stream",
        "update_stream",
        "seal_stream",
        "truncate_stream",
        "delete_stream",
        "create_key_value_table",
        "delete_key_value_table",
        "create_reader_group",
        "delete_reader_group",
    ),
    "registry": ("create_group", "delete_group", "set_compatibility", "add_schema", "delete_schema", "add_codec"),
    "table": ("put_many", "delete", "delete_many"),
}


def dying_python(directory: Path) -> Path:
    """Make a program in a directory that runs the service as Python would."""
    python = directory / "python"
    python.write_text(f'#!/bin/sh\n{DIRECTORY}={directory} exec {sys.executable} -P {Path(__file__).resolve()} "$@"\n')
    python.chmod(0o755)
    return python


class Death:
    """When the service dies next: after so many steps, which the file `left` says."""

    def __init__(self, directory: Path) -> None:
        self._left, self._step = directory / "left", directory / "step"

    def after(self, steps: int) -> None:
        """Let it die after this number of steps, counted from now."""
        self._step.unlink(missing_ok=True)
        self._left.write_text(str(steps))

    def step(self) -> str | None:
        """Return the step after which it died since then, None if it has not; it does not die any more."""
        self._left.unlink(missing_ok=True)
        return self._step.read_text() if self._step.exists() else None

    def done(self, name: str) -> None:
        """Count a step, and die if it was the last one."""
        if not self._left.exists():
            return
        left = int(self._left.read_text()) - 1
        self._left.write_text(str(left))
        if left == 0:
            self._step.write_text(name)
            os.kill(os.getpid(), signal.SIGKILL)


def _last(name: str, function: Callable[..., Any], death: Death) -> Callable[..., Any]:
    @functools.wraps(function)
    def step(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        death.done(name)
        return result

    return step


def main() -> None:
    """Be the service if the arguments name its module, else the daemon of Python workers."""
    if "pyspark_pravega.catalog.service" not in sys.argv:
        from pyspark_pravega.datasource import worker_daemon

        worker_daemon.main()
        return
    from pyspark_pravega.catalog import service
    from pyspark_pravega.client.controller.controller import Controller
    from pyspark_pravega.client.key_value.key_value_table import KeyValueTable
    from pyspark_pravega.client.registry.schema_registry import SchemaRegistry

    death = Death(Path(os.environ[DIRECTORY]))
    owners: dict[str, type] = {"controller": Controller, "registry": SchemaRegistry, "table": KeyValueTable}
    for kind, names in STEPS.items():
        for name in names:
            setattr(owners[kind], name, _last(f"{kind} {name}", getattr(owners[kind], name), death))
    service.main()


if __name__ == "__main__":
    main()
