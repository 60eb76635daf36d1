"""Values of attributes as a corpus of single operators counts them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from nnfuzz.ir.view import GraphView, NodeView


def attribute_values(graph: GraphView) -> set[str]:
    """What the nodes show: operator, dtypes of its inputs, attribute, value.

    A mode (text, bool, dtype) counts by its value; a number by whether it is negative, 0, 1 or
    more, since a size has too many values; a list by the least and the greatest of its elements.
    """
    dtypes = graph.dtypes
    return {shown for node in graph.nodes for shown in _shown(node, dtypes)}


def _shown(node: NodeView, dtypes: dict[str, str]) -> Iterator[str]:
    head = f"{node.op}({','.join(dtypes[name] for name in node.inputs)})"
    yield head
    for name, value in node.attributes.items():
        yield f"{head} {name}={_class_of(value)}"


def _class_of(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | list):
        return "body" if isinstance(value, dict) and "steps" in value else json.dumps(value)
    if isinstance(value, list):
        numbers = [v for v in value if isinstance(v, int | float)]
        ends = (min(numbers), max(numbers)) if numbers else ()
        return "[" + " ".join(map(_class_of, ends)) + "]"
    if value < 0:
        return "negative"
    return str(int(value)) if value in (0, 1) else "more"
