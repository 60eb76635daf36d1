"""Writes TOML (tomllib only reads it): texts, numbers, truth values, lists, and tables of these."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from nnfuzz.base.text import visible

Scalar = str | int | float | bool
Value = Scalar | Sequence[Scalar] | Mapping[str, Scalar]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONG = 2
"""Items of a list from which on each stands on a line of its own, so that git merges them."""


def toml_text(fields: Mapping[str, Value]) -> str:
    """A document that tomllib reads back to the same values, tables behind everything else.

    Characters that do not print are written as nnfuzz.base.text.visible shows them.
    """
    plain = [(k, v) for k, v in fields.items() if not isinstance(v, Mapping)]
    lines = [f"{_key(name)} = {_value(value)}" for name, value in plain]
    for name, table in fields.items():
        if isinstance(table, Mapping):
            lines += ["", f"[{_key(name)}]"]
            lines += [f"{_key(key)} = {_scalar(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _value(value: Value) -> str:
    if isinstance(value, str | int | float):
        return _scalar(value)
    items = [_scalar(item) for item in value]
    if len(items) < _LONG:
        return f"[{', '.join(items)}]"
    return "[\n" + "".join(f"    {item},\n" for item in items) + "]"


def _scalar(value: Scalar) -> str:
    """JSON's form, which is TOML's for all that is visible."""
    return json.dumps(visible(value) if isinstance(value, str) else value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _scalar(name)
