"""Typed records on the wire: JSON for most of a value, blobs for its arrays and bytes.

A record is of any type that nnfuzz.base.reading reads, and may hold bytes, arrays, and mappings of
names to arrays. Both ends of a channel name the type: its form is written down nowhere else.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

import numpy as np

from nnfuzz.base.reading import Json, JsonObject, Unreadable, read, read_fields
from nnfuzz.base.text import visible
from nnfuzz.base.writing import as_json
from nnfuzz.sandbox.wire import Blobs, NamedBlobs

T = TypeVar("T")
_UNIONS = (typing.Union, types.UnionType)
_PRESENT = True
"""Stands in the JSON for an array or bytes among the blobs."""


def pack(kind: Any, value: Any) -> tuple[JsonObject, NamedBlobs]:
    """A value of a type -> header and blobs for nnfuzz.sandbox.wire."""
    blobs: NamedBlobs = {}
    return {"value": _form(kind).write(value, blobs, "")}, blobs


def unpack(kind: Any, header: Mapping[str, Json], blobs: Blobs) -> Any:
    """The inverse of `pack`. Raises: ValueError, TypeError or KeyError for any other content."""
    return _form(kind).read(header["value"], blobs, "")


@dataclasses.dataclass(frozen=True)
class _Form:
    """How values of one type are written and read.

    Both functions take a value or its JSON, the blobs, and the path of the value, which the names
    of its blobs begin with.
    """

    write: Callable[[Any, NamedBlobs, str], Json]
    read: Callable[[Json, Blobs, str], Any]


@cache
def _form(kind: Any) -> _Form:
    if not _has_blobs(kind):
        return _Form(lambda value, blobs, path: as_json(value), lambda json, b, p: read(kind, json))
    if kind in (bytes, np.ndarray):
        return _blob(kind)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in _UNIONS:
        return _union(inner)
    if origin is tuple:
        return _tuple(inner)
    return _arrays() if origin else _dataclass(kind)


@cache
def _has_blobs(kind: Any) -> bool:
    """Whether values of a type hold bytes or arrays."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return any(_has_blobs(hints[f.name]) for f in dataclasses.fields(kind) if f.init)
    return kind in (bytes, np.ndarray) or any(map(_has_blobs, typing.get_args(kind)))


def _blob(kind: type) -> _Form:
    def write(value: Any, blobs: NamedBlobs, path: str) -> bool:
        blobs[path] = value
        return _PRESENT

    return _Form(write, lambda json, blobs, path: _of_kind(kind, blobs[path]))


def _arrays() -> _Form:
    def write(value: Mapping[str, np.ndarray], blobs: NamedBlobs, path: str) -> bool:
        blobs.update({_inside(path, name): array for name, array in value.items()})
        return _PRESENT

    def read_arrays(json: Json, blobs: Blobs, path: str) -> dict[str, np.ndarray]:
        start = _inside(path, "")
        named = ((k.removeprefix(start), v) for k, v in blobs.items() if k.startswith(start))
        return {visible(name): _of_kind(np.ndarray, array) for name, array in named}

    return _Form(write, read_arrays)


def _union(kinds: tuple[Any, ...]) -> _Form:
    """None as itself; a value of the only other type as such, one of several by its class."""
    named = {kind.__name__: kind for kind in kinds if kind is not types.NoneType}
    if len(named) == 1:
        (only,) = (_form(kind) for kind in named.values())
        return _Form(
            lambda value, *place: None if value is None else only.write(value, *place),
            lambda json, *place: None if json is None else only.read(json, *place),
        )

    def write(value: Any, blobs: NamedBlobs, path: str) -> Json:
        name = next(name for name, kind in named.items() if isinstance(value, kind))
        return {name: _form(named[name]).write(value, blobs, path)}

    def read_one(json: Json, blobs: Blobs, path: str) -> Any:
        ((name, content),) = json.items()
        return _form(named[name]).read(content, blobs, path)

    return _Form(write, read_one)


def _tuple(kinds: tuple[Any, ...]) -> _Form:
    repeated = kinds[-1] is Ellipsis

    def form(place: int) -> _Form:
        return _form(kinds[0] if repeated else kinds[place])

    def write(value: Any, blobs: NamedBlobs, path: str) -> list[Json]:
        return [form(i).write(item, blobs, _inside(path, i)) for i, item in enumerate(value)]

    def read_all(json: Json, blobs: Blobs, path: str) -> tuple[object, ...]:
        items = _of_kind(list, json)
        if not repeated and len(items) != len(kinds):
            raise Unreadable(f"{path} should be {len(kinds)} items, not {len(items)}")
        return tuple(form(i).read(item, blobs, _inside(path, i)) for i, item in enumerate(items))

    return _Form(write, read_all)


def _dataclass(kind: Any) -> _Form:
    hints = typing.get_type_hints(kind)
    forms = {f.name: _form(hints[f.name]) for f in dataclasses.fields(kind) if f.init}
    held = {name for name in forms if _has_blobs(hints[name])}

    def write(value: Any, blobs: NamedBlobs, path: str) -> JsonObject:
        return {
            name: form.write(getattr(value, name), blobs, _inside(path, name))
            for name, form in forms.items()
        }

    def read_all(json: Json, blobs: Blobs, path: str) -> Any:
        items = _of_kind(dict, json).items()
        plain = read_fields(kind, {name: v for name, v in items if name not in held})
        rest = ((name, v) for name, v in items if name in held)
        return kind(**plain, **{n: forms[n].read(v, blobs, _inside(path, n)) for n, v in rest})

    return _Form(write, read_all)


def _inside(path: str, name: str | int) -> str:
    """The path of a part of the value at a path."""
    return f"{path}/{name}" if path else str(name)


def _of_kind(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind):
        raise Unreadable(f"it should be {kind.__name__}, not {type(value).__name__}")
    return value
