"""The catalog service: one process per driver, answering the JVM adapter's requests over stdin and stdout.

The lines are those of `calls`, the requests those of `requests`. Every request carries the catalog's conf, so the
process has no state that a restart would lose but open INSERTs, whose handles are enough to finish them. When stdin
closes the driver is gone: open INSERTs are aborted at once, and the process ends.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import Any

from .calls import Calls
from .operations import Operations
from .requests import read_request

LOG = logging.getLogger(__name__)
GRACE = 30.0
"""Seconds that calls get to end after the driver has: a commit to be done, half of a CREATE TABLE to be undone."""
DEFECT = 70
"""Exit code after a failure of this module (EX_SOFTWARE). Python's own is 1 when the package cannot be imported."""


def serve(requests: int, replies: int) -> None:
    """Answer requests until the driver closes its end, then abort what is open. Both are file descriptors."""
    operations = Operations()

    def answer(number: int, request: Any) -> object:
        return operations.answer(number, read_request(request))

    calls = Calls(answer, replies)
    # Never closed: its reader may wait in it for ever, when the driver reads no answers but does not end.
    lines = os.fdopen(requests, "rb", closefd=False)
    threading.Thread(target=calls.read, args=(lines, operations.take_back), name="requests", daemon=True).start()
    calls.ended.wait()
    # Before all else: what the driver left open is held against other writers until it is aborted.
    aborts = operations.abort_open_inserts()
    if not calls.end(GRACE):
        LOG.warning("The driver has ended, and some of its calls did not end in %.0f s after it.", GRACE)
    for abort in aborts:
        abort.join()
    operations.close()


def main() -> None:
    """Run the service on this process's stdin and stdout."""
    # Ctrl-C in a shell goes to all of its processes and means the statement: the driver cancels that by a request.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(format="pyspark-pravega: %(levelname)s %(message)s", stream=sys.stderr, level=logging.WARNING)
    # Nothing but answers may reach the pipe, whatever a library prints.
    replies = os.dup(1)
    os.dup2(2, 1)
    code = DEFECT
    try:
        serve(0, replies)
        code = 0
    except BaseException:
        LOG.exception("The catalog service failed.")
    logging.shutdown()
    os._exit(code)  # calls that did not end have threads, which must not keep the process


if __name__ == "__main__":
    main()
