"""Typed records on the wire: JSON for most of a value, blobs for its arrays and bytes.

A record is of any type that nnfuzz.base.reading reads, and may hold bytes, arrays, and mappings of
names to arrays. Both ends of a channel name the type: its form is written down nowhere else.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import cache
from itertools import repeat
from typing import Any, TypeVar

import numpy as np

from nnfuzz.base.reading import Json, JsonObject, Unreadable, read, read_fields
from nnfuzz.base.text import visible
from nnfuzz.base.writing import as_json
from nnfuzz.sandbox.wire import Blobs, NamedBlobs

T = TypeVar("T")
_FIELDS = "__dataclass_fields__"
_UNIONS = (typing.Union, types.UnionType)
_PRESENT = True
"""Stands in the JSON for an array or bytes among the blobs."""


def pack(kind: Any, value: Any) -> tuple[JsonObject, NamedBlobs]:
    """A value of a type -> header and blobs for nnfuzz.sandbox.wire."""
    blobs: NamedBlobs = {}
    return {"value": _write(kind, value, blobs, "")}, blobs


def unpack(kind: Any, header: Mapping[str, Json], blobs: Blobs) -> Any:
    """The inverse of `pack`. Raises: ValueError, TypeError or KeyError for any other content."""
    return _read(kind, header["value"], blobs, "")


def _write(kind: Any, value: Any, blobs: NamedBlobs, path: str) -> Json:
    """The JSON of a value. path: which the names of its blobs begin with."""
    if not _has_blobs(kind):
        return as_json(value)
    origin, inner = _parts(kind)
    if kind in (bytes, np.ndarray):
        blobs[path] = value
        return _PRESENT
    if origin in _UNIONS:
        if value is None:
            return None
        if len(inner) == 1:
            return _write(inner[0], value, blobs, path)
        own = next(each for each in inner if isinstance(value, each))
        return {own.__name__: _write(own, value, blobs, path)}
    if origin is tuple:
        items = zip(_of_items(inner), value)
        return [_write(own, v, blobs, _inside(path, i)) for i, (own, v) in enumerate(items)]
    if origin:  # a mapping of names to arrays
        blobs.update({_inside(path, name): array for name, array in value.items()})
        return _PRESENT
    return {
        name: _write(own, getattr(value, name), blobs, _inside(path, name))
        for name, own in _hints(kind).items()
    }


def _read(kind: Any, json: Json, blobs: Blobs, path: str) -> Any:
    """The value of a type that `_write` has written."""
    if not _has_blobs(kind):
        return read(kind, json)
    origin, inner = _parts(kind)
    if kind in (bytes, np.ndarray):
        return _of_kind(kind, blobs[path])
    if origin in _UNIONS:
        if json is None:
            return None
        if len(inner) == 1:
            return _read(inner[0], json, blobs, path)
        ((name, content),) = json.items()
        return _read({each.__name__: each for each in inner}[name], content, blobs, path)
    if origin is tuple:
        items = _of_kind(list, json)
        if inner[-1] is not Ellipsis and len(items) != len(inner):
            raise Unreadable(f"{path} should be {len(inner)} items, not {len(items)}")
        pairs = enumerate(zip(_of_items(inner), items))
        return tuple(_read(own, item, blobs, _inside(path, i)) for i, (own, item) in pairs)
    if origin:
        start = _inside(path, "")
        named = ((k.removeprefix(start), v) for k, v in blobs.items() if k.startswith(start))
        return {visible(name): _of_kind(np.ndarray, array) for name, array in named}
    hints, held, fields = _hints(kind), _held(kind), _of_kind(dict, json)
    plain = read_fields(kind, {name: v for name, v in fields.items() if name not in held})
    rest = {n: _read(hints[n], fields[n], blobs, _inside(path, n)) for n in held & fields.keys()}
    return kind(**plain, **rest)


@cache
def _has_blobs(kind: Any) -> bool:
    """Whether values of a type hold bytes or arrays."""
    inner = _hints(kind).values() if hasattr(kind, _FIELDS) else typing.get_args(kind)
    return kind in (bytes, np.ndarray) or any(map(_has_blobs, inner))


@cache
def _held(kind: Any) -> frozenset[str]:
    """The fields of a dataclass that hold bytes or arrays."""
    return frozenset(name for name, own in _hints(kind).items() if _has_blobs(own))


@cache
def _parts(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """The origin of a generic type, None of another one; and its arguments but None."""
    inner = typing.get_args(kind)
    return typing.get_origin(kind), tuple(each for each in inner if each is not types.NoneType)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of the fields of a dataclass that its constructor takes."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}


def _of_items(inner: tuple[Any, ...]) -> Any:
    """The types of a tuple's items, one after the other."""
    return repeat(inner[0]) if inner[-1] is Ellipsis else inner


def _inside(path: str, name: str | int) -> str:
    """The path of a part of the value at a path."""
    return f"{path}/{name}" if path else str(name)


def _of_kind(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind):
        raise Unreadable(f"it should be {kind.__name__}, not {type(value).__name__}")
    return value
