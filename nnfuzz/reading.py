"""JSON of strangers (worker processes, files of others) -> values of the types that are declared.

The one rule book for it: nothing has another type than its field says, and all text is visible.
What reads a type is made once and kept, since every test case of a campaign is read by it.
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
Reader = Callable[[Any], Any]
"""Turns a JSON value into one of its type. Raises: _Misfit."""
MAX_DEPTH = 100
"""Of nested JSON without a declared type: attributes of operators and bodies nest less than ten."""


class Unreadable(ValueError):
    """A value that is not of the type that was declared; the message says where."""


class _Misfit(Exception):
    """What is wrong with a value inside of another one; where: the way to it, innermost first."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.where: list[str] = []

    def inside(self, place: str) -> _Misfit:
        self.where.append(place)
        return self

    def told(self) -> str:
        return f"{''.join(reversed(self.where)) or 'it'}{self.problem}"


def read(kind: type[T], value: Any) -> T:
    """A JSON value as a value of a type.

    kind: str, int, float, bool, None, Any, an enumeration, a union, tuple, list or dict of such; a
    dataclass, written as an object or as the list of its fields; or a class that has a class method
    `parse` for its text. A number without fraction is a float, too. Raises: Unreadable.
    """
    return _readable(_reader_of(kind), value)


def read_fields(kind: type, data: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The named fields of a dataclass, where they are there; default: all, and nothing else.

    Raises: Unreadable.
    """
    told = {k: v for k, v in data.items() if k in names} if names else data
    return _readable(lambda value: _fields(kind, value), told)


def _readable(reader: Reader, value: Any) -> Any:
    try:
        return reader(value)
    except _Misfit as misfit:
        raise Unreadable(misfit.told()) from misfit.__cause__


def _reader_of(kind: Any) -> Reader:
    return _reader(kind, typing.get_args(kind))


@cache
def _reader(kind: Any, inner: tuple[Any, ...]) -> Reader:
    """inner: the arguments of the type, in order, which equal unions need not share."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind is Any:
        return lambda value: _any(value, MAX_DEPTH)
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _first(inner)
    if origin is tuple and inner[-1] is not Ellipsis:
        return _listed(list(map(_reader_of, inner)))
    if origin in (tuple, list, Sequence):
        return _repeated(_reader_of(inner[0]), list if origin is list else tuple)
    if origin in (dict, Mapping):
        return _mapped(*map(_reader_of, inner))
    return lambda value: _made(kind, value)


# -- plain values -----------------------------------------------------------------------------


def _text(value: Any) -> str:
    _expect(isinstance(value, str), str, value)
    return visible(value)


def _integer(value: Any) -> int:
    _expect(type(value) is int, int, value)
    _expect(abs(value) < 2**64, "a number of 64 bits", value)
    return value


def _number(value: Any) -> float:
    if type(value) is int:
        return _built(float, value)  # too large a number is no float
    _expect(type(value) is float, float, value)
    _expect(abs(value) < math.inf, "a number of 64 bits", value)
    return value


def _truth(value: Any) -> bool:
    _expect(type(value) is bool, bool, value)
    return value


def _nothing(value: Any) -> None:
    _expect(value is None, types.NoneType, value)


_PLAIN: Mapping[Any, Reader] = {
    str: _text,
    int: _integer,
    float: _number,
    bool: _truth,
    None: _nothing,
    types.NoneType: _nothing,
}


def _any(value: Any, depth: int) -> Any:
    _expect(depth > 0, "less deeply nested", "...")
    if isinstance(value, Mapping):
        return {key: _any(item, depth - 1) for key, item in value.items()}
    return [_any(item, depth - 1) for item in value] if isinstance(value, list) else value


# -- what holds other values ------------------------------------------------------------------


def _first(kinds: Sequence[Any]) -> Reader:
    """As the first type of a union that it fits; what fits exactly comes before what is turned."""
    readers = [(kind, _reader_of(kind)) for kind in kinds]

    orders: dict[type, list[tuple[Any, Reader]]] = {}

    def in_order(given: type) -> list[tuple[Any, Reader]]:
        if given not in orders:
            orders[given] = sorted(readers, key=lambda pair: pair[0] is not given)
        return orders[given]

    def reader(value: Any) -> Any:
        problem = _Misfit(" is nothing that it may be")
        for kind, read_as in in_order(type(value)):
            if value is None or kind is not types.NoneType:
                try:
                    return read_as(value)
                except _Misfit as misfit:
                    problem = misfit
        raise problem

    return reader


def _repeated(item: Reader, make: Callable[[list[Any]], Any]) -> Reader:
    def reader(value: Any) -> Any:
        _expect(isinstance(value, list | tuple), list, value)
        found: list[Any] = []
        try:
            for each in value:
                found.append(item(each))
        except _Misfit as misfit:
            raise misfit.inside(f"[{len(found)}]") from misfit.__cause__
        return make(found)

    return reader


def _listed(items: Sequence[Reader]) -> Reader:
    def reader(value: Any) -> Any:
        _expect(isinstance(value, list | tuple), list, value)
        _expect(len(items) == len(value), f"{len(items)} items", value)
        found: list[Any] = []
        try:
            for item, each in zip(items, value):
                found.append(item(each))
        except _Misfit as misfit:
            raise misfit.inside(f"[{len(found)}]") from misfit.__cause__
        return tuple(found)

    return reader


def _mapped(key_reader: Reader, item: Reader) -> Reader:
    def reader(value: Any) -> Any:
        _expect(isinstance(value, Mapping), dict, value)
        found = {}
        for key, each in value.items():
            name = key_reader(key)
            try:
                found[name] = item(each)
            except _Misfit as misfit:
                raise misfit.inside(f".{key}") from misfit.__cause__
        return found

    return reader


def _made(kind: Any, value: Any) -> Any:
    """A value of a class."""
    if issubclass(kind, Enum):
        return _built(kind, value)
    if isinstance(value, str) and hasattr(kind, "parse"):
        return _built(kind.parse, visible(value))
    _expect(dataclasses.is_dataclass(kind), "no type for JSON", value)
    if isinstance(value, list):
        names = _readers(kind)
        _expect(len(value) <= len(names), kind, value)
        value = dict(zip(names, value))
    _expect(isinstance(value, Mapping), kind, value)
    return _built(lambda fields: kind(**fields), _fields(kind, value))


def _fields(kind: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    readers = _readers(kind)
    for name in data:
        _expect(name in readers, f"a field of {kind.__name__}", name)
    found = {}
    for name, value in data.items():
        try:
            found[name] = readers[name](value)
        except _Misfit as misfit:
            raise misfit.inside(f".{name}") from misfit.__cause__
    return found


@cache
def _readers(kind: type) -> dict[str, Reader]:
    hints = typing.get_type_hints(kind)
    return {f.name: _reader_of(hints[f.name]) for f in dataclasses.fields(kind) if f.init}


def _built(make: Callable[[Any], Any], value: Any) -> Any:
    try:
        return make(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise _Misfit(f": {error}") from error


def _expect(fits: bool, wanted: Any, value: Any) -> None:
    if not fits:
        wanted = getattr(wanted, "__name__", wanted)
        got = repr(value) if isinstance(value, str | int | float) else type(value).__name__
        raise _Misfit(f" should be {wanted}, not {visible(got)[:80]}")
