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

from nnfuzz.base.text import visible

T = TypeVar("T")
Json = Any
"""A JSON value without a declared type: None, a truth value, a number, a text, a list or a dict."""
JsonObject = dict[str, Json]
"""A JSON object without a declared type, as it stands in a file or crosses a pipe."""
Reader = Callable[[Json], Any]
"""Turns a JSON value into one of its type. Raises: _Misfit."""
_LISTS, _OBJECTS = (list, tuple), (dict, Mapping)
_ATOMS = frozenset((str, int, float, bool, types.NoneType))
UNWRITTEN: Mapping[str, bool] = types.MappingProxyType({"written": False})
"""Metadata of a dataclass's field that files and processes do not exchange: it is never written
(nnfuzz.base.writing), and a value for it is ignored, so that no file can set it."""
MAX_DEPTH = 100
"""The deepest JSON without a declared type: attributes of operators and bodies nest less
than ten.
"""


MOST = 1e11
"""The most of a count or a measure, in seconds 3,000 years: more is out of range for clocks,
calendars and the system, and nobody means it."""


class Unreadable(ValueError):
    """A value that is not of the declared type; the message has its place."""


class _Misfit(Exception):
    """The fault of a value inside of another one; where: the path to it, innermost first."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.where: list[str] = []

    def inside(self, place: str) -> _Misfit:
        self.where.append(place)
        return self

    def message(self) -> str:
        return f"{''.join(reversed(self.where)) or 'it'}{self.problem}"


def read(kind: type[T], value: Json) -> T:
    """A JSON value as a value of a type.

    kind: str, int, float, bool, None, Any, an enumeration, a union, tuple, list or dict of such; a
    dataclass, written as an object or as the list of its fields; or a class that has a class method
    `parse` for its text. A number without fraction is a float, too. Raises: Unreadable.
    """
    return _readable(_reader_of(kind), value)


def read_fields(kind: type, data: Mapping[str, Json], *names: str) -> JsonObject:
    """The named fields of a dataclass, where they are there; default: all, and nothing else.

    Raises: Unreadable.
    """
    chosen = {k: v for k, v in data.items() if k in names} if names else data
    return _readable(lambda value: _fields(kind, value), chosen)


def _readable(reader: Reader, value: Json) -> Any:
    try:
        return reader(value)
    except _Misfit as misfit:
        raise Unreadable(misfit.message()) from misfit.__cause__


def _reader_of(kind: Any) -> Reader:
    return _reader(kind, typing.get_args(kind))


@cache
def _reader(kind: Any, inner: tuple[Any, ...]) -> Reader:
    """inner: the arguments of the type, in order, which equal unions need not share."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind is Any or kind is object:
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
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and not issubclass(kind, Enum):
        return _dataclass(kind)
    return lambda value: _made(kind, value)


# -- plain values -----------------------------------------------------------------------------


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise _unlike(str, value)
    return value if value.isprintable() else visible(value)


def _integer(value: Json) -> int:
    if type(value) is not int:
        raise _unlike(int, value)
    if not -(2**64) < value < 2**64:
        raise _unlike("a number of 64 bits", value)
    return value


def _number(value: Json) -> float:
    if type(value) is int:
        return _built(float, value)  # too large a number is no float
    if type(value) is not float:
        raise _unlike(float, value)
    if not abs(value) < math.inf:
        raise _unlike("a number of 64 bits", value)
    return value


def _truth(value: Json) -> bool:
    if type(value) is not bool:
        raise _unlike(bool, value)
    return value


def _nothing(value: Json) -> None:
    if value is not None:
        raise _unlike(types.NoneType, value)


_PLAIN: Mapping[Any, Reader] = {
    str: _text,
    int: _integer,
    float: _number,
    bool: _truth,
    None: _nothing,
    types.NoneType: _nothing,
}


def _any(value: Json, depth: int) -> Any:
    if depth <= 0:
        raise _unlike("less deeply nested", "...")
    if value.__class__ in _ATOMS:
        return value
    if isinstance(value, _OBJECTS):
        return {key: _any(item, depth - 1) for key, item in value.items()}
    return [_any(item, depth - 1) for item in value] if isinstance(value, list) else value


# -- values that hold other values ------------------------------------------------------------


def _first(kinds: Sequence[Any]) -> Reader:
    """As the first type of a union that it fits; an exact fit comes before a conversion."""
    readers = [(kind, _reader_of(kind)) for kind in kinds]

    orders: dict[type, list[tuple[Any, Reader]]] = {}

    def in_order(given: type) -> list[tuple[Any, Reader]]:
        ordered = sorted(readers, key=lambda pair: pair[0] is not given)
        orders[given] = [
            (k, r) for k, r in ordered if given is types.NoneType or k is not types.NoneType
        ]
        return orders[given]

    def reader(value: Json) -> Any:
        problem = None
        given = type(value)
        for _, read_as in orders.get(given) or in_order(given):
            try:
                return read_as(value)
            except _Misfit as misfit:
                problem = misfit
        raise problem or _Misfit(" is nothing that it may be")

    return reader


def _repeated(item: Reader, make: Callable[[list[Any]], Any]) -> Reader:
    def reader(value: Json) -> Any:
        if not isinstance(value, _LISTS):
            raise _unlike(list, value)
        items: list[Any] = []
        try:
            for each in value:
                items.append(item(each))
        except _Misfit as misfit:
            raise misfit.inside(f"[{len(items)}]") from misfit.__cause__
        return make(items)

    return reader


def _listed(items: Sequence[Reader]) -> Reader:
    def reader(value: Json) -> Any:
        if not isinstance(value, _LISTS):
            raise _unlike(list, value)
        if len(items) != len(value):
            raise _unlike(f"{len(items)} items", value)
        values: list[Any] = []
        try:
            for item, each in zip(items, value):
                values.append(item(each))
        except _Misfit as misfit:
            raise misfit.inside(f"[{len(values)}]") from misfit.__cause__
        return tuple(values)

    return reader


def _mapped(key_reader: Reader, item: Reader) -> Reader:
    def reader(value: Json) -> Any:
        if not isinstance(value, _OBJECTS):
            raise _unlike(dict, value)
        entries = {}
        for key, each in value.items():
            name = key_reader(key)
            try:
                entries[name] = item(each)
            except _Misfit as misfit:
                raise misfit.inside(f".{key}") from misfit.__cause__
        return entries

    return reader


def _made(kind: Any, value: Json) -> Any:
    """A value of a class."""
    if issubclass(kind, Enum):
        return _built(kind, value)
    if isinstance(value, str) and hasattr(kind, "parse"):
        return _built(kind.parse, visible(value))
    raise _unlike("no type for JSON", value)


def _dataclass(kind: Any) -> Reader:
    """Reads an object of its fields, or the list of these."""
    make, parse = _maker(kind), getattr(kind, "parse", None)
    names: tuple[str, ...] = ()

    def reader(value: Json) -> Any:
        nonlocal names
        if isinstance(value, str) and parse:
            return _built(parse, visible(value))
        if isinstance(value, list):
            names = names or tuple(_readers(kind))
            if len(value) > len(names):
                raise _unlike(kind, value)
            value = dict(zip(names, value))
        if not isinstance(value, _OBJECTS):
            raise _unlike(kind, value)
        return make(_fields(kind, value))

    return reader


def _maker(kind: Any) -> Callable[[JsonObject], Any]:
    """Makes a value of a dataclass; where all that its constructor does is to set fields, without
    it, since setting those of a frozen one takes longer than everything else about a small value.
    """
    own = [f.name for f in dataclasses.fields(kind)]
    plain = kind.__dataclass_params__.init and not hasattr(kind, "__post_init__")
    plain = plain and "__slots__" not in vars(kind)
    count, new = len(own), object.__new__

    def make(fields: JsonObject) -> Any:
        if plain and len(fields) == count:
            made = new(kind)
            made.__dict__.update(fields)
            return made
        return _built(lambda given: kind(**given), fields)

    return make


def _fields(kind: Any, data: Mapping[str, Json]) -> JsonObject:
    readers = _readers(kind)
    for name in data:
        if name not in readers:
            raise _unlike(f"a field of {kind.__name__}", name)
    values = {}
    try:
        for name, value in data.items():
            if reader := readers[name]:
                values[name] = reader(value)
    except _Misfit as misfit:
        raise misfit.inside(f".{name}") from misfit.__cause__
    return values


@cache
def _readers(kind: type) -> dict[str, Reader | None]:
    """How each field is read; None for one that is ignored."""
    hints = typing.get_type_hints(kind)
    return {
        f.name: None if f.metadata == UNWRITTEN else _reader_of(hints[f.name])
        for f in dataclasses.fields(kind)
        if f.init
    }


def _built(make: Callable[[Any], Any], value: Json) -> Any:
    try:
        return make(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise _Misfit(f": {error}") from error


def _unlike(wanted: Any, value: Json) -> _Misfit:
    """The error for a value of another type than the declared one."""
    wanted = getattr(wanted, "__name__", wanted)
    got = repr(value) if isinstance(value, str | int | float) else type(value).__name__
    return _Misfit(f" should be {wanted}, not {visible(got)[:80]}")
