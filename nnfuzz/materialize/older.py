"""How nodes are written for opsets before 13, where some operands were still attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

CHANGED = 13
"""The opset from which on nodes are as operator specs lower them."""
WERE_ATTRIBUTES: Mapping[str, str] = {
    "Squeeze": "axes",
    "Unsqueeze": "axes",
    "ReduceSum": "axes",
    "Split": "split",
}
"""Operator -> the attribute that its second input was."""
FLATTENING = frozenset({"Softmax", "LogSoftmax", "Hardmax"})
"""Operators that worked on all axes from `axis` on; of the last axis they mean the same."""


def with_attribute(
    operator: str,
    inputs: Sequence[str],
    attributes: Mapping[str, Any],
    number: Callable[[str], Iterable[int]],
) -> tuple[Sequence[str], Mapping[str, Any]]:
    """The inputs and attributes of a node where a constant input becomes an attribute.

    number: the value of a constant by its name; raises KeyError for any other value.
    """
    name = WERE_ATTRIBUTES.get(operator)
    if name is None or len(inputs) < 2 or not inputs[1]:
        return inputs, attributes
    return inputs[:1], {**attributes, name: [int(n) for n in number(inputs[1])]}


def exchanged_with_last(axis: int, rank: int) -> list[int] | None:
    """The permutation that makes an axis the last one, which undoes itself; None if it is."""
    axis %= rank
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return None if axis == rank - 1 else order
