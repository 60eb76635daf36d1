"""Guesses the attributes with which a spec lowers to a given ONNX node, without the spec's help.

Candidates for an attribute are values of the node's attributes and constants, options that the spec
declares, and dtypes and sizes of inputs and outputs. Each attribute in turn gets the candidate
under which the lowering differs least from the node, until nothing improves.
`nnfuzz.materialize.meaning` then decides whether the result is equivalent to the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import REQUIRED, Attribute, Choice, Real, Sym
from nnfuzz.operators.operator import OpSpec

PASSES = 4
LARGEST = 16
"""Most elements of a sequence that may be an attribute."""
USUAL = (None, 0, 1, -1)
Measure = Callable[[OpSpec], float]


def guessed(
    spec: type[OpSpec],
    fields: Mapping[str, object],
    takes: Sequence[TensorType],
    gives: Sequence[TensorType],
    measure: Measure,
) -> tuple[OpSpec, float]:
    """The best operator found, and by how much its lowering differs from the node.

    fields: the node's attributes and constants by ONNX names. takes, gives: types of its inputs and
    outputs. measure: the difference for an operator; infinite if its lowering fails.
    """
    pool = list(_pool(fields, takes, gives))
    op = spec.__new__(spec)
    for name, declared in spec.declared.items():
        found = _candidates(name, declared, op, fields, takes, pool)
        op.__dict__[name] = next(iter(found), None)
    least = measure(op)
    for _ in range(PASSES):
        before = least
        for name, declared in spec.declared.items():
            for value in _candidates(name, declared, op, fields, takes, pool):
                if least == 0:
                    return op, least
                other = _with(op, name, value)
                if (distance := measure(other)) < least:
                    op, least = other, distance
        if least == before:
            break
    return op, least


def _with(op: OpSpec, name: str, value: Any) -> OpSpec:
    other = type(op).__new__(type(op))
    other.__dict__.update({**op.attributes, name: value})
    return other


def _candidates(
    name: str,
    declared: Attribute,
    op: OpSpec,
    fields: Mapping[str, object],
    takes: Sequence[TensorType],
    pool: Sequence[object],
) -> list[Any]:
    """Values to try for one attribute, likely ones first, without repetitions."""
    found = [fields[name]] if name in fields else []
    if isinstance(declared, Choice):
        found += _offered(declared, op, takes)
        found += pool
    else:
        found += [value for value in pool if _fits(declared, value)]
    return list({repr(value): value for value in found}.values())


def _offered(declared: Choice, op: OpSpec, takes: Sequence[TensorType]) -> list[Any]:
    """The declared default and options, if they can be computed from the attributes set so far."""
    found = [] if declared.default is REQUIRED else [declared.default]
    try:
        options = declared.options
        return [*found, *((options(op, *takes) if callable(options) else options) or ())]
    except Exception:  # options may depend on attributes that are not valid yet
        return found


def _fits(declared: Sym | Real, value: Any) -> bool:
    if isinstance(declared, Real):
        return isinstance(value, float)
    if declared.count is None:
        return isinstance(value, int)
    return isinstance(value, tuple) and all(isinstance(v, int) for v in value)


def _pool(
    fields: Mapping[str, object], takes: Sequence[TensorType], gives: Sequence[TensorType]
) -> Iterator[Any]:
    """Candidates for every attribute: values of the node, their parts, dtypes and shapes."""
    for value in fields.values():
        if isinstance(value, tuple):
            yield value if len(value) <= LARGEST else None
            if 0 < len(value) <= LARGEST:
                half = len(value) // 2
                yield from (value[:half], value[half:], value[2:])
                yield from value
        else:
            yield value
    yield from USUAL
    for type_ in (*gives, *takes):
        yield type_.dtype
        yield type_.sizes
    yield from _ratios(takes, gives)
    yield from range(2, 9)
    for type_ in (*takes, *gives):
        yield from type_.sizes


def _ratios(takes: Sequence[TensorType], gives: Sequence[TensorType]) -> Iterator[Any]:
    """Ratios of the first output's sizes to the first input's, if their ranks are equal."""
    pairs = [tuple(zip(one.sizes, other.sizes)) for one, other in zip(takes[:1], gives[:1])]
    for sizes in pairs:
        if takes[0].rank == gives[0].rank and all(before for before, _ in sizes):
            grown = tuple(after / before for before, after in sizes)
            yield from (grown, grown[2:]) if set(grown) != {1.0} else ()
