"""Ctrl-C: the first asks the campaign to end, the second kills it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupt:
    """While entered, the first SIGINT, SIGTERM or SIGHUP is only remembered; the second SIGINT or
    SIGTERM kills. A terminal that closes may send several SIGHUP; where nohup has them ignored,
    they stay so.
    """

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[int, object] = {}

    def asked(self) -> bool:
        """Whether the user wants the campaign to end."""
        return self._asked

    def __enter__(self) -> Interrupt:
        heard = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._on) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on(self, number: int, frame: FrameType | None) -> None:
        if self._asked and number != signal.SIGHUP:
            # The workers die with this process: their fork servers watch it.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self._asked = True
        with contextlib.suppress(OSError):  # there is no terminal any more
            print("\nending; press Ctrl-C again to kill", file=sys.stderr, flush=True)
