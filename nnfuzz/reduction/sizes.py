"""Subjects whose model has a symbolic dimension: every edit is made at each of their sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from nnfuzz.ir.graph import Graph, GraphError, Value
from nnfuzz.ir.sizes import (
    at_size,
    by_copy,
    copies,
    join_copies,
    name_and_copy,
    with_renamed_values,
)
from nnfuzz.materialize.opsets import DYNAMIC
from nnfuzz.reduction.subject import Inapplicable, Subject


def at_each_size(subject: Subject) -> list[Subject]:
    """One subject per size, by the names of the first; the subject itself if there is one size."""
    if subject.exporter != DYNAMIC:
        return [subject]
    weights = {name: subject.params[name] for name in subject.graph.weights}
    inputs = by_copy({name: subject.params[name] for name in subject.graph.inputs})
    parts = zip(copies(subject.graph), inputs, strict=True)
    return [replace(subject, graph=g, params={**weights, **params}) for g, params in parts]


def edited(subject: Subject, edit: Callable[[Subject], Subject]) -> Subject:
    """The subject after an edit at each size.

    Raises: Inapplicable as the edit does, or where the sizes need different weights afterwards.
    """
    parts = at_each_size(subject)
    if len(parts) == 1:
        return edit(subject)
    return _rejoined([edit(part) for part in parts])


def _rejoined(parts: Sequence[Subject]) -> Subject:
    first = parts[0]
    params: dict[str, np.ndarray] = {}
    for k, part in enumerate(parts):
        params.update({at_size(name, k): part.params[name] for name in part.graph.inputs})
        for name in part.graph.weights:
            if name not in first.params or not np.array_equal(
                part.params[name], first.params[name]
            ):
                raise Inapplicable(f"the weight {name} depends on the size")
            params[name] = part.params[name]
    try:
        whole = join_copies([part.graph for part in parts])
        return replace(first, graph=whole, params=params, exporter=DYNAMIC)
    except GraphError as error:
        raise Inapplicable(str(error)) from error


def fixed(subject: Subject) -> Subject:
    """All copies in one model with static shapes; their names do not call them copies any more."""
    graph = subject.graph
    names = {name: _apart(name) for name in graph.values}
    values = {names[n]: Value(names[n], v.type) for n, v in graph.values.items()}
    ends = (graph.inputs, graph.weights, graph.outputs)
    inputs, weights, outputs = ([names[n] for n in ns] for ns in ends)
    nodes = [with_renamed_values(node, names) for node in graph.nodes]
    static = Graph(values, nodes, inputs, weights, outputs)
    params = {names[n]: a for n, a in subject.params.items()}
    return replace(subject, graph=static, params=params, exporter="direct")


def _apart(name: str) -> str:
    stem, copy = name_and_copy(name)
    return f"{stem}_size{copy}" if copy else name
