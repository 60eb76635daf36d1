"""Writes values of declared types as JSON, in the form that nnfuzz.base.reading.read reads back.

A dataclass becomes an object of its fields. Three marks change that: a class with a class method
`parse` is written as its text, a class marked with `as_list` as the list of its fields, and a class
with a method `to_json` by that method.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from nnfuzz.base.reading import UNWRITTEN, Json, JsonObject

__all__ = ["ROUNDED", "UNWRITTEN", "as_json", "as_list", "fields_as_json"]
C = TypeVar("C", bound=type)
Writer = Callable[[Any], Json]
ROUNDED = types.MappingProxyType({"digits": 3})
"""Metadata of a field with seconds, which are written to the millisecond."""
_PLAIN = {str, int, float, bool}
_AS_LIST = "__written_as_list__"


def as_list(cls: C) -> C:
    """Marks a dataclass that is written as the list of its fields, without their names."""
    setattr(cls, _AS_LIST, True)
    return cls


def as_json(value: Any) -> Json:
    """Returns the value as dicts, lists, strings, numbers and None.

    Raises: TypeError for a value that has no written form, such as an array.
    """
    return _writer(value.__class__)(value)


def fields_as_json(value: Any, kind: type | None = None) -> JsonObject:
    """Returns the fields of a dataclass by name, whatever its class is marked with.

    kind: a base class; only its fields are written.
    """
    return _object_writer(kind or value.__class__)(value)


@cache
def _writer(kind: Any) -> Writer:
    if issubclass(kind, Enum):
        return _enum
    if issubclass(kind, str | int | float | types.NoneType):
        return _plain
    if issubclass(kind, Mapping):
        return _mapping
    if issubclass(kind, list | tuple):
        return _sequence
    if hasattr(kind, "to_json"):
        return _by_method
    if hasattr(kind, "parse"):
        return str
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        as_object = _object_writer(kind)
        return (lambda value: [*as_object(value).values()]) if _is_list(kind) else as_object
    raise TypeError(f"{kind.__name__} has no written form")


def _plain(value: Any) -> Json:
    return value


def _enum(value: Any) -> Json:
    return value.value


def _mapping(value: Any) -> dict[Json, Json]:
    return {as_json(key): as_json(item) for key, item in value.items()}


def _sequence(value: Any) -> list[Json]:
    return [as_json(item) for item in value]


def _by_method(value: Any) -> Json:
    return value.to_json()


def _is_list(kind: type) -> bool:
    return hasattr(kind, _AS_LIST)


@cache
def _object_writer(kind: Any) -> Callable[[Any], JsonObject]:
    written = [f for f in dataclasses.fields(kind) if UNWRITTEN.items() - f.metadata.items()]
    names = [f.name for f in written]
    hints = _hints(kind)
    further = {n: own for n in names if (own := _field_writer(hints.get(n, Any))) is not _plain}
    rounded = {f.name: f.metadata["digits"] for f in written if "digits" in f.metadata}

    def as_object(value: Any) -> JsonObject:
        entries = {name: getattr(value, name) for name in names}
        for name, own in further.items():
            entries[name] = own(entries[name])
        for name, digits in rounded.items():
            entries[name] = round(entries[name], digits)
        return entries

    return as_object


def _hints(kind: Any) -> dict[str, Any]:
    """The declared types of a class; none if some of them are for type checkers only."""
    try:
        return typing.get_type_hints(kind)
    except NameError:
        return {}


def _field_writer(declared: Any) -> Callable[[Any], Json]:
    """The writer of a field's values: those of plain types, and lists of them, stay as they are."""
    inner = {*typing.get_args(declared)} - {Ellipsis}
    if declared in _PLAIN:
        return _plain
    return list if typing.get_origin(declared) in (tuple, list) and inner <= _PLAIN else as_json
