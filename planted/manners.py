"""What a careless compiler does in place of refusing a model: no lines of its adapter, since what
fails in these says nothing of a compiler.
"""

from __future__ import annotations

import os
import signal
import time


def act(manner: str, message: str) -> None:
    if manner == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if manner == "slip":
        dict[str, str]()[message]
    if manner == "assertion":
        raise AssertionError(message)
    while manner == "hang":
        time.sleep(1)
    hoard = []
    while manner == "memory":
        hoard.append(bytes(1 << 26))
