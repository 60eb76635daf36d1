"""Messages between the campaign and a worker, and the output that the worker prints beside them.

A message is a kind, the number of a job, a length, a payload.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import deque
from collections.abc import Iterator

import numpy as np

from nnfuzz.base.text import visible
from nnfuzz.sandbox.wire import ALIGNMENT, WireError

SETUP, JOB = b"S", b"J"  # campaign -> worker
READY, PARTIAL, REPLY, FAULT = b"R", b"P", b"D", b"F"  # worker -> campaign
_ANSWERS = (READY, PARTIAL, REPLY, FAULT)
_HEAD = struct.Struct("<cQQ")
BUFFER_BYTES = 1 << 20
MAX_BYTES = 1 << 30  # of one message: more is the garbage of a broken worker


class Closed(ConnectionError):
    """The other end has closed the channel."""


def allocate(size: int) -> memoryview:
    """A writable buffer of `size` bytes whose start is aligned for array views."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % ALIGNMENT
    return raw.data[start : start + size]


def pieces_of(kind: bytes, payload: bytes, job: int = 0) -> list[memoryview]:
    """The pieces to be sent, in order, without copying the payload."""
    return [memoryview(_HEAD.pack(kind, job, len(payload))), memoryview(payload)]


def send(sock: socket.socket, kind: bytes, payload: bytes, job: int = 0) -> None:
    """Sends one message on a blocking socket, in one system call where it takes all of it."""
    pieces = pieces_of(kind, payload, job)
    while pieces:
        pieces = unsent(pieces, sock.sendmsg(pieces))


def unsent(pieces: list[memoryview], count: int) -> list[memoryview]:
    """The pieces that remain once `count` bytes of them are sent."""
    for position, piece in enumerate(pieces):
        if count < len(piece):
            return [piece[count:], *pieces[position + 1 :]]
        count -= len(piece)
    return []


def receive(sock: socket.socket) -> tuple[bytes, memoryview]:
    """Receives one message from a blocking socket. Raises: Closed at the end of the stream."""
    kind, _, length = _HEAD.unpack(_fill(sock, memoryview(bytearray(_HEAD.size))))
    return kind, _fill(sock, allocate(length))


def _fill(sock: socket.socket, view: memoryview) -> memoryview:
    rest = view
    while len(rest):
        count = sock.recv_into(rest)
        if not count:
            raise Closed
        rest = rest[count:]
    return view


class MessageReader:
    """Assembles messages from a non-blocking socket."""

    def __init__(self, sock: socket.socket):
        self._sock = sock
        self._begun: tuple[bytes, int] | None = None
        self._buffer: memoryview
        self._rest: memoryview
        self._start(None, _HEAD.size)

    def messages(self) -> Iterator[tuple[bytes, int, memoryview]]:
        """Yields kind, job and payload of each complete message; an incomplete one waits for a
        later call.

        Raises: Closed at the end of the stream; WireError if it holds something else.
        """
        while True:
            while len(self._rest):
                try:
                    count = self._sock.recv_into(self._rest)
                except BlockingIOError:
                    return
                except ConnectionError as error:
                    raise Closed from error
                if not count:
                    raise Closed
                self._rest = self._rest[count:]
            if self._begun is None:
                kind, job, length = _HEAD.unpack(self._buffer)
                if kind not in _ANSWERS or length > MAX_BYTES:
                    raise WireError(f"no message begins with {bytes(self._buffer)!r}")
                self._start((kind, job), length)
            else:
                message = *self._begun, self._buffer
                self._start(None, _HEAD.size)
                yield message

    def _start(self, begun: tuple[bytes, int] | None, size: int) -> None:
        self._begun = begun
        aligned = begun is not None  # a head holds no arrays
        self._buffer = self._rest = allocate(size) if aligned else memoryview(bytearray(size))


HEAD_BYTES, TAIL_BYTES = 16 << 10, 48 << 10
READ_BYTES = 1 << 20
MARK = b"\0nnfuzz-answer\0"
"""The worker writes it into its output before each of its answers, so that output from before an
answer is separated from later output, however late the campaign reads."""


class Capture:
    """Output of any length: the first 16 KB and the last 48 KB from a non-blocking pipe up to each
    mark.
    """

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
