"""JSON of strangers (worker processes, files of others) -> values of the types that are declared.

The one rule book for it: nothing has another type than its field says, and all text is visible.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from nnfuzz.text import visible

T = TypeVar("T")
MAX_DEPTH = 100
"""Of nested JSON without a declared type: attributes of operators and bodies nest less than ten."""


class Unreadable(ValueError):
    """A value that is not of the type that was declared; the message says where."""


def read(kind: type[T], value: Any) -> T:
    """A JSON value as a value of a type.

    kind: str, int, float, bool, None, Any, an enumeration, a union, tuple, list or dict of such; a
    dataclass, written as an object or as the list of its fields; or a class that has a class method
    `parse` for its text. A number without fraction is a float, too. Raises: Unreadable.
    """
    return _read(kind, value, "")


def read_fields(kind: type, data: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The named fields of a dataclass, where they are there; default: all, and nothing else.

    Raises: Unreadable.
    """
    return _fields(kind, {k: v for k, v in data.items() if k in names} if names else data, "")


def _read(kind: Any, value: Any, where: str) -> Any:
    if kind in _PLAIN:
        return _plain(kind, value, where)
    if kind is Any:
        return _any(value, where, MAX_DEPTH)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _first(inner, value, where)
    if origin in (tuple, list, Sequence):
        return _listed(origin, inner, value, where)
    if origin in (dict, Mapping):
        _expect(isinstance(value, Mapping), dict, value, where)
        key_kind, item_kind = inner
        return {
            _read(key_kind, key, where): _read(item_kind, item, f"{where}.{key}")
            for key, item in value.items()
        }
    return _made(kind, value, where)


_GREATEST = {int: 2**64, float: math.inf}
_PLAIN = (str, int, float, bool, None, types.NoneType)


def _plain(kind: Any, value: Any, where: str) -> Any:
    if kind is float and type(value) is int:
        return _built(float, value, where)  # too large a number is no float
    if kind is str:
        _expect(isinstance(value, str), kind, value, where)
        return visible(value)
    _expect(type(value) is (kind or types.NoneType), kind, value, where)
    if type(value) in (int, float):
        _expect(abs(value) < _GREATEST[type(value)], "a number of 64 bits", value, where)
    return value


def _any(value: Any, where: str, depth: int) -> Any:
    _expect(depth > 0, "less deeply nested", "...", where)
    if isinstance(value, Mapping):
        return {key: _any(item, where, depth - 1) for key, item in value.items()}
    return [_any(item, where, depth - 1) for item in value] if isinstance(value, list) else value


def _first(kinds: Sequence[Any], value: Any, where: str) -> Any:
    """As the first type of a union that it fits; what fits exactly comes before what is turned."""
    problem = Unreadable(f"{where or 'it'} is nothing that it may be")
    for kind in sorted(kinds, key=lambda kind: kind is not type(value)):
        if value is None or kind is not types.NoneType:
            try:
                return _read(kind, value, where)
            except Unreadable as error:
                problem = error
    raise problem


def _listed(origin: Any, kinds: Sequence[Any], value: Any, where: str) -> Any:
    _expect(isinstance(value, list | tuple), list, value, where)
    if origin is not tuple or kinds[-1] is Ellipsis:
        kinds = [kinds[0]] * len(value)
    _expect(len(kinds) == len(value), f"{len(kinds)} items", value, where)
    items = (_read(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value)))
    return list(items) if origin is list else tuple(items)


def _made(kind: Any, value: Any, where: str) -> Any:
    """A value of a class."""
    if issubclass(kind, Enum):
        return _built(kind, value, where)
    if isinstance(value, str) and hasattr(kind, "parse"):
        return _built(kind.parse, visible(value), where)
    _expect(dataclasses.is_dataclass(kind), "no type for JSON", value, where)
    if isinstance(value, list):
        names = _types(kind)
        _expect(len(value) <= len(names), kind, value, where)
        value = dict(zip(names, value))
    _expect(isinstance(value, Mapping), kind, value, where)
    return _built(lambda fields: kind(**fields), _fields(kind, value, where), where)


def _fields(kind: Any, data: Mapping[str, Any], where: str) -> dict[str, Any]:
    kinds = _types(kind)
    for name in data:
        _expect(name in kinds, f"a field of {kind.__name__}", name, where)
    return {name: _read(kinds[name], value, f"{where}.{name}") for name, value in data.items()}


@cache
def _types(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}


def _built(make: Callable[[Any], Any], value: Any, where: str) -> Any:
    try:
        return make(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise Unreadable(f"{where or 'it'}: {error}") from error


def _expect(fits: bool, wanted: Any, value: Any, where: str) -> None:
    if not fits:
        wanted = getattr(wanted, "__name__", wanted)
        got = repr(value) if isinstance(value, str | int | float) else type(value).__name__
        raise Unreadable(f"{where or 'it'} should be {wanted}, not {visible(got)[:80]}")
