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
from functools import cache
from typing import Any

import numpy as np

from nnfuzz.base.reading import Json, JsonObject

MAGIC = b"NNF1"
ALIGNMENT = 64
MAX_INDEX_BYTES = 16 << 20
"""The most of the JSON, which takes up to fifty times as much once read. Graphs take kilobytes."""
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_PREFIX = struct.Struct("<4sI")

Blobs = Mapping[str, "np.ndarray | bytes"]
NamedBlobs = dict[str, "np.ndarray | bytes"]
"""Blobs to which others are added."""


class WireError(ValueError):
    """A value that cannot be put on the wire, or a frame that is corrupt."""


def encode(header: JsonObject, blobs: Blobs | None = None) -> bytes:
    """Header and blobs -> one frame; dtype, byte order and shape of every array are kept.

    Raises: WireError for object or structured arrays and for a header that JSON cannot hold.
    """
    entries: list[list[object]] = []
    buffers: list[Any] = []
    offset = 0
    for name, blob in (blobs or {}).items():
        dtype, shape, buffer = _describe(name, blob)
        entries.append([name, dtype, shape, offset, len(buffer)])
        padding = -len(buffer) % ALIGNMENT
        buffers += [buffer, b"\0" * padding]
        offset += len(buffer) + padding
    try:
        index = _ENCODER.encode({"header": header, "blobs": entries}).encode()
    except (TypeError, ValueError) as error:
        raise WireError(f"the header does not fit into JSON: {error}") from error
    # JSON tolerates trailing blanks: pad the index until the first buffer is aligned.
    index += b" " * (-(_PREFIX.size + len(index)) % ALIGNMENT)
    return b"".join([_PREFIX.pack(MAGIC, len(index)), index, *buffers])


def decode(frame: Any) -> tuple[JsonObject, NamedBlobs]:
    """Frame (any buffer) -> (header, blobs). Arrays are views into the frame, bytes are copies.

    Arrays are writable exactly when the frame's buffer is, and not if one element stands for all.
    Raises: WireError if the frame is truncated or damaged.
    """
    view = memoryview(frame).cast("B")
    try:
        return _decoded(view)
    except WireError:
        raise
    except Exception as error:  # the JSON reader and NumPy may raise anything for garbage
        raise WireError(f"the frame's index is damaged: {type(error).__name__}") from error


def _decoded(view: memoryview) -> tuple[JsonObject, NamedBlobs]:
    magic, length = _PREFIX.unpack_from(view)
    start = _PREFIX.size + length
    if magic != MAGIC or length > MAX_INDEX_BYTES or start > len(view):
        raise WireError(f"it begins with {bytes(view[: _PREFIX.size])!r}, or is truncated")
    index = _json(bytes(view[_PREFIX.size : start]))
    header, entries = index["header"], index["blobs"]
    if not isinstance(header, dict):
        raise WireError("its header is no JSON object")
    blobs: dict[str, np.ndarray | bytes] = {}
    body, end = view[start:], 0
    for name, dtype, shape, offset, size in entries:
        if not isinstance(name, str) or name in blobs:
            raise WireError(f"{name!r} names no blob, or several")
        if not end <= offset <= offset + size <= len(body):
            raise WireError(f"blob {name!r} is not behind the others, or outside of the frame")
        end = offset + size
        blobs[name] = _blob(name, body[offset:end], dtype, shape)
    return header, blobs


def _json(data: bytes) -> Json:
    """A JSON value whose texts can be encoded again: lone surrogates become "?"."""
    text = data.decode(errors="replace")
    value = json.loads(text)
    if "\\ud" not in text.lower():
        return value
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def _describe(name: str, blob: np.ndarray | bytes) -> tuple[str | None, list[int], Any]:
    if isinstance(blob, bytes | bytearray | memoryview):
        return None, [], memoryview(blob).cast("B")
    if not isinstance(blob, np.ndarray | np.generic):
        raise WireError(f"blob {name!r} is {type(blob).__name__}, neither an array nor bytes")
    array = np.asarray(blob)
    dtype, shape = _dtype_name(name, array.dtype), list(array.shape)
    if is_one(array):
        array = array[(0,) * array.ndim]
    buffer = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return dtype, shape, buffer


def stand_in(array: np.ndarray) -> np.ndarray:
    """Zeros of the same dtype and shape that take no memory, here and on the wire."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)


def is_one(array: np.ndarray) -> bool:
    """Whether all elements are the same one in memory, as in a stand-in: one is sent for all."""
    return array.size > 1 and not any(array.strides)


def _dtype_name(name: str, dtype: np.dtype) -> str:
    if not has_wire_form(dtype):
        raise WireError(f"array {name!r} has dtype {dtype}, which has no wire form")
    # ml_dtypes (bfloat16, float8_*, int4) are registered under a name and have no numpy code.
    return dtype.name if dtype.isbuiltin == 2 else dtype.str


def has_wire_form(dtype: np.dtype) -> bool:
    """Whether it is a dtype of numbers, truth values or text, and no object, struct or time."""
    return dtype.kind in "biufcU" or (dtype.isbuiltin == 2 and not dtype.hasobject)


@cache
def _dtype(name: str) -> np.dtype:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name, name))


def _blob(name: str, buffer: memoryview, dtype: str | None, shape: list[int]) -> np.ndarray | bytes:
    if dtype is None:
        return bytes(buffer)
    element = _dtype(dtype)
    count = math.prod(shape)
    whole, uniform = count * element.itemsize, count > 1 and len(buffer) == element.itemsize
    if not has_wire_form(element) or not (uniform or len(buffer) == whole):
        raise WireError(f"array {name!r}: {dtype}{shape} does not fill {len(buffer)} bytes")
    array = np.frombuffer(buffer, np.uint8).view(element)
    if uniform:
        return np.broadcast_to(array[0], shape)
    return array.reshape(shape)
