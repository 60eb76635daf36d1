"""Keeps the beginning and the end of a job's output of any length.

The worker writes MARK into its output before each of its answers, so that output from before
an answer is separated from later output, however late the campaign reads.
"""

from __future__ import annotations

import os
from collections import deque

from nnfuzz.base.text import visible

HEAD_BYTES, TAIL_BYTES = 16 << 10, 48 << 10
READ_BYTES = 1 << 20
MARK = b"\0nnfuzz-answer\0"


class Capture:
    """The first 16 KB and the last 48 KB read from a non-blocking pipe up to each mark."""

    def __init__(self, fd: int):
        self.fd = fd
        self.open = True
        self.total = 0  # bytes since the last mark
        self._head = bytearray()
        self._tail = bytearray()
        self._held = b""  # bytes that may be the beginning of a mark
        self._finished: deque[str] = deque()

    def drain(self, limit: int = 1 << 20) -> None:
        """Reads the available bytes, at most about `limit`, without blocking."""
        while self.open and limit > 0:
            try:
                chunk = os.read(self.fd, READ_BYTES)
            except BlockingIOError:
                return
            self.open = bool(chunk)
            limit -= len(chunk)
            self._split(self._held + chunk)

    def take(self) -> str:
        """The text printed before the oldest mark; without a mark, everything so far.

        Bytes that are left out leave a note in their place.
        """
        return self._finished.popleft() if self._finished else self._end()

    def take_all(self) -> str:
        """Everything since the last `take`, for a worker that will print no more."""
        text = "".join(self._finished) + self._end()
        self._finished.clear()
        return text

    def close(self) -> None:
        os.close(self.fd)
        self.open = False

    def _split(self, data: bytes) -> None:
        *whole, last = data.split(MARK)
        for piece in whole:
            self._held = b""
            self._add(piece)
            self._finished.append(self._end())
        self._held = _beginning_of_mark(last) if self.open else b""
        self._add(last.removesuffix(self._held))

    def _end(self) -> str:
        """Closes the current part; returns its text."""
        self._add(self._held)
        self._held = b""
        lost = self.total - len(self._head) - len(self._tail)
        gap = f"\n... {lost} bytes left out ...\n".encode() if lost else b""
        text = visible(bytes(self._head + gap + self._tail).decode(errors="replace"))
        self.total = 0
        self._head.clear()
        self._tail.clear()
        return text

    def _add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        room = max(0, HEAD_BYTES - len(self._head))
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]


def _beginning_of_mark(data: bytes) -> bytes:
    """The longest end of `data` that a mark may continue."""
    start = data.rfind(MARK[:1], -len(MARK) + 1)
    while start >= 0:
        if MARK.startswith(data[start:]):
            return data[start:]
        start = data.rfind(MARK[:1], -len(MARK) + 1, start)
    return b""
