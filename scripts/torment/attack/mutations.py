"""Random changes of JSON values and of bytes that often break readers."""

from __future__ import annotations

import copy
import random
from typing import Any

TEXTS = (
    *(
        "",
        " ",
        "\x00",
        "\x1b[2J\x1b]0;title\x07",
        "\udcff",
        "\u202e\u2066",
        "é" * 300,
        "a" * 70_000,
    ),
    *("../../victim", "/etc/passwd", '"""', "'\n", "<script>", "{{7*7}}", "%s%n", "a@b/c:d", "-1"),
    *("NaN", "1e999", "none", "ok", "crash", "compare", "O", "M8[ns]", "i4,f4", "V8"),
)
VALUES = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308),
    *(float("nan"), float("inf"), [], {}, [[]], [None], {"": ""}, [0] * 5000),
)
BYTES = (
    b"\x00",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\xff" * 8,
    b"{",
    b"}",
    b"[" * 3000,
    b'"',
    b"\\ud800",
)


def mutated(value: Any, rng: random.Random) -> Any:
    """A copy of a JSON value with one to four places changed."""
    try:
        changed = copy.deepcopy(value)
    except RecursionError:  # an earlier change has nested it as deeply as can be
        return value
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        changed = _changed(changed, rng)
    return changed


def _changed(value: Any, rng: random.Random) -> Any:
    """Changes the value at a random place."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            del value[key]
        elif rng.random() < 0.1:
            value[rng.choice(TEXTS)] = value.pop(key)
        else:
            value[key] = _changed(value[key], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.85:
        place = rng.randrange(len(value))
        if rng.random() < 0.1:
            del value[place]
        elif rng.random() < 0.1:
            value.insert(place, rng.choice(value))
        else:
            value[place] = _changed(value[place], rng)
        return value
    return replacement(value, rng)


def replacement(value: Any, rng: random.Random) -> Any:
    """Another value, often of the same type."""
    if isinstance(value, str) and rng.random() < 0.6:
        text = rng.choice(TEXTS)
        return rng.choice((text, value + text, text + value, value[: len(value) // 2]))
    if type(value) in (int, float) and rng.random() < 0.6:
        return rng.choice((value + 1, -value, value * 2**40, value / 2, value - 1))
    if rng.random() < 0.05:
        return nested(rng.choice((50, 400, 3000)), rng)
    return copy.deepcopy(rng.choice((*VALUES, *TEXTS)))


def nested(depth: int, rng: random.Random) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def scrambled(data: bytes, rng: random.Random) -> bytes:
    """The same bytes with up to eight places changed."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        place = rng.randrange(len(out) + 1)
        how = rng.randrange(6)
        if how == 0 and out:
            out[place % len(out)] ^= 1 << rng.randrange(8)
        elif how == 1:
            out[place:place] = rng.choice(BYTES)
        elif how == 2:
            del out[place : place + rng.choice((1, 4, 64, 1000))]
        elif how == 3:
            piece = rng.choice(BYTES)
            out[place : place + len(piece)] = piece
        elif how == 4:
            out[place:place] = out[place : place + rng.choice((8, 200))]
        else:
            out[place : place + 8] = rng.randbytes(8)
    return bytes(out)
