"""Turns records into rows of the campaign's tables and back, by the names of their fields."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache, partial
from typing import Any, TypeVar

from nnfuzz.base.reading import read
from nnfuzz.base.untrusted import parsed_json
from nnfuzz.base.writing import as_json
from nnfuzz.store.schema import FILE

R = TypeVar("R")
SqlValue = str | int | float | bytes | None
LINE = "\n"
"""The separator of the texts of a tuple, which is one column."""


def loads(kind: type[R], text: str | bytes) -> R:
    """Reads the JSON of a column as a type. Raises: Unreadable."""
    return read(kind, parsed_json(text, FILE))


def dumps(value: object) -> str:
    """Writes JSON without blanks."""
    return json.dumps(value, separators=(",", ":"))


def column(value: object) -> SqlValue:
    """Returns the content of a column for a value: texts of a tuple are lines, and a value that is
    neither a text nor a number is JSON.
    """
    if isinstance(value, Enum):
        return column(value.value)
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    if isinstance(value, tuple):
        return LINE.join(value)
    written = as_json(value)
    return written if isinstance(written, str) else dumps(written)


def records(
    kind: Callable[..., R], names: Iterable[str], rows: Iterable[tuple[object, ...]]
) -> Iterator[R]:
    """Makes a record of each row. Equal texts are one object, which saves most of the memory.

    names: of the columns in order, which are fields of the record. Raises: Unreadable.
    """
    readers = _readers(kind)
    columns = [(name, readers[name]) for name in names]
    texts: dict[str, str] = {}
    for row in rows:
        fields = {}
        for (name, reader), value in zip(columns, row, strict=True):
            own = texts.setdefault(value, value) if isinstance(value, str) else value
            fields[name] = reader(own) if reader else own
        yield kind(**fields)


@cache
def _readers(kind: Any) -> dict[str, Callable[[object], object] | None]:
    """How the column of each field is read; None where the record has the column's own value."""
    hints = typing.get_type_hints(kind)
    return {field.name: _reader(hints[field.name]) for field in dataclasses.fields(kind)}


def _reader(kind: Any) -> Callable[[Any], Any] | None:
    if kind in (str, int, float, float | None):
        return None
    if kind is bool:
        return bool
    if kind == tuple[str, ...]:
        return _lines
    if typing.get_origin(kind) in (dict, Mapping):
        return partial(loads, kind)
    return partial(read, kind)


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.splitlines())
