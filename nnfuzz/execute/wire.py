"""One frame = a JSON header plus named arrays and byte strings, self-describing, never pickled.

Layout, little endian: magic ``NNF1``, length of the index (u32), the index as JSON
``{"header": ..., "blobs": [[name, dtype or null, shape, offset, nbytes], ...]}``, then the raw
buffers. Every buffer starts at a multiple of 64 bytes from the start of the frame, so that arrays
viewed in an aligned frame are aligned for every compiler.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

MAGIC = b"NNF1"
ALIGNMENT = 64
_PREFIX = struct.Struct("<4sI")

Blobs = Mapping[str, "np.ndarray | bytes"]


class WireError(ValueError):
    """A value that cannot be put on the wire, or a frame that is corrupt."""


def encode(header: dict[str, Any], blobs: Blobs | None = None) -> bytes:
    """Header and blobs -> one frame; dtype, byte order and shape of every array are kept.

    Raises: WireError for object or structured arrays and for a header that JSON cannot hold.
    """
    entries: list[list[Any]] = []
    buffers: list[Any] = []
    offset = 0
    for name, blob in (blobs or {}).items():
        dtype, shape, buffer = _describe(name, blob)
        entries.append([name, dtype, shape, offset, len(buffer)])
        padding = -len(buffer) % ALIGNMENT
        buffers += [buffer, b"\0" * padding]
        offset += len(buffer) + padding
    try:
        index = json.dumps({"header": header, "blobs": entries}, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise WireError(f"the header does not fit into JSON: {error}") from error
    # JSON tolerates trailing blanks: pad the index until the first buffer is aligned.
    index += b" " * (-(_PREFIX.size + len(index)) % ALIGNMENT)
    return b"".join([_PREFIX.pack(MAGIC, len(index)), index, *buffers])


def decode(frame: Any) -> tuple[dict[str, Any], dict[str, np.ndarray | bytes]]:
    """Frame (any buffer) -> (header, blobs). Arrays are views into the frame, bytes are copies.

    Arrays are writable exactly when the frame's buffer is.
    Raises: WireError if the frame is truncated or damaged.
    """
    view = memoryview(frame).cast("B")
    if len(view) < _PREFIX.size:
        raise WireError(f"frame of {len(view)} bytes is shorter than its prefix")
    magic, length = _PREFIX.unpack_from(view)
    if magic != MAGIC:
        raise WireError(f"frame starts with {magic!r}, not with {MAGIC!r}")
    start = _PREFIX.size + length
    if start > len(view):
        raise WireError(f"frame of {len(view)} bytes is truncated inside its index ({start} bytes)")
    try:
        index = json.loads(bytes(view[_PREFIX.size : start]))
        header, entries = index["header"], index["blobs"]
        blobs = {entry[0]: _view(view[start:], *entry) for entry in entries}
    except WireError:
        raise
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise WireError(f"the frame's index is damaged: {error!r}") from error
    return header, blobs


def _describe(name: str, blob: np.ndarray | bytes) -> tuple[str | None, list[int], Any]:
    if isinstance(blob, bytes | bytearray | memoryview):
        return None, [], memoryview(blob).cast("B")
    if not isinstance(blob, np.ndarray | np.generic):
        raise WireError(f"blob {name!r} is {type(blob).__name__}, neither an array nor bytes")
    array = np.asarray(blob)
    dtype, shape = _dtype_name(name, array.dtype), list(array.shape)
    buffer = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return dtype, shape, buffer


def _dtype_name(name: str, dtype: np.dtype) -> str:
    if dtype.hasobject or dtype.names is not None or dtype.kind in "USMm":
        raise WireError(f"array {name!r} has dtype {dtype}, which has no wire form")
    # ml_dtypes (bfloat16, float8_*, int4) are registered under a name and have no numpy code.
    return dtype.name if dtype.isbuiltin == 2 else dtype.str


def _dtype(name: str) -> np.dtype:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name, name))


def _view(
    body: memoryview, name: str, dtype: str | None, shape: list[int], offset: int, nbytes: int
) -> np.ndarray | bytes:
    if offset < 0 or nbytes < 0 or offset + nbytes > len(body):
        raise WireError(f"blob {name!r} lies outside of the frame: it is truncated")
    buffer = body[offset : offset + nbytes]
    if dtype is None:
        return bytes(buffer)
    element = _dtype(dtype)
    if math.prod(shape) * element.itemsize != nbytes:
        raise WireError(f"array {name!r}: {dtype}{shape} does not fill {nbytes} bytes")
    return np.frombuffer(buffer, np.uint8).view(element).reshape(shape)
