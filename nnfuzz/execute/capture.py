"""Keeps the beginning and the end of what a job prints, whatever its length."""

from __future__ import annotations

import os

HEAD_BYTES, TAIL_BYTES = 16 << 10, 48 << 10
READ_BYTES = 1 << 16


class Capture:
    """The first 16 KB and the last 48 KB read from a non-blocking pipe since the last `take`."""

    def __init__(self, fd: int):
        self.fd = fd
        self.open = True
        self.total = 0
        self._head = bytearray()
        self._tail = bytearray()

    def drain(self, limit: int = 1 << 20) -> None:
        """Reads what is there, at most about `limit` bytes, without blocking."""
        while self.open and limit > 0:
            try:
                chunk = os.read(self.fd, READ_BYTES)
            except BlockingIOError:
                return
            self.open = bool(chunk)
            limit -= len(chunk)
            self._add(chunk)

    def take(self) -> str:
        """Returns what was kept, with a mark where bytes are left out, and starts anew."""
        lost = self.total - len(self._head) - len(self._tail)
        gap = f"\n... {lost} bytes left out ...\n".encode() if lost else b""
        text = bytes(self._head + gap + self._tail).decode(errors="replace")
        self.total = 0
        self._head.clear()
        self._tail.clear()
        return text

    def close(self) -> None:
        os.close(self.fd)
        self.open = False

    def _add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        room = max(0, HEAD_BYTES - len(self._head))
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]
