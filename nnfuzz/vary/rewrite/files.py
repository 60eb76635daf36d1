"""Rules that change names, and the files with the weights."""

from __future__ import annotations

import random
from collections.abc import Callable

import onnx
from onnx import TensorProto

from nnfuzz.base.external_data import LOCATIONS
from nnfuzz.materialize.walk import bodies
from nnfuzz.vary.rewrite.draft import Draft, Kind, models

FAMILY, EXTERNAL_FAMILY = "structure", "external data"


_WORDS = (
    "if else for while return class def lambda import None int float double void char const static "
    "template namespace operator this new auto and not null input data shape value x n self list "
    "Relu Add Conv Constant Shape Identity If Loop MatMul"
).split()
_STYLES: tuple[Callable[[int], str], ...] = (
    lambda i: f"{'very_' * 60}{i}",
    lambda i: f"/model/layers.{i}/act/Relu_output_0",
    lambda i: "".join(c.upper() if i >> n & 1 else c for n, c in enumerate("a" * 20)),
    lambda i: _WORDS[i] if i < len(_WORDS) else f"{_WORDS[i % len(_WORDS)]}{i}",
    str,
)
"""Long names, paths as exporters write them, names that differ in case alone, reserved words and
operators, numbers.
"""


def _inner(draft: Draft) -> list[str]:
    """Names of constants and values that are neither inputs nor outputs."""
    public = {value.name for value in (*draft.graph.input, *draft.graph.output)}
    names = dict.fromkeys([*(tensor.name for tensor in draft.graph.initializer), *draft.makers])
    return [name for name in names if name not in public]


@models(FAMILY, lambda draft: [0] if _inner(draft) else [], kind=Kind.FORM)
def values_renamed(draft: Draft, site: int, rng: random.Random) -> None:
    """Names of inner values, constants and nodes -> long names, numbers, names that differ in case
    alone, names of operators, reserved words, paths; of nodes also none: no two values are called
    alike, and a name means nothing. Inputs and outputs keep theirs."""
    graph, style = draft.graph, rng.choice(_STYLES)
    styled = (name for i in range(1 << 20) if (name := style(i)) not in draft.taken)
    chosen = dict(zip(_inner(draft), styled))
    missing = rng.random() < 0.4
    for node in graph.node:
        _rename(node, chosen)
        node.name = "" if missing else next(filter(None, node.output))
    for tensor in graph.initializer:
        tensor.name = chosen.get(tensor.name, tensor.name)


def _rename(node: onnx.NodeProto, names: dict[str, str]) -> None:
    """Renames values wherever they are read or computed, outside of function bodies."""
    for used in (node.input, node.output):
        for i, name in enumerate(used):
            used[i] = names.get(name, name)
    for body in bodies(node):
        for inner in body.node:
            _rename(inner, names)
        for value in body.output:
            value.name = names.get(value.name, value.name)


_ALIGNMENTS = (1, 1, 4, 64, 4096)


def _movable(draft: Draft) -> list[TensorProto]:
    """Initializers whose elements are bytes that another program can read from a file."""
    return [tensor for tensor in draft.graph.initializer if tensor.raw_data]


def _plain(tensors: list[TensorProto]) -> list[TensorProto]:
    return [tensor for tensor in tensors if tensor.data_type != TensorProto.INT64]


@models(EXTERNAL_FAMILY, lambda draft: [0] if _plain(_movable(draft)) else [], kind=Kind.ENDS)
def external_data(draft: Draft, site: int, rng: random.Random) -> None:
    """Initializers of the file -> the same bytes in one or several files beside it, at offsets that
    are aligned or not: the model names file, offset and length of each."""
    tensors = _movable(draft)
    if rng.random() < 0.7:  # as exporters do it: not those that describe shapes
        tensors = _plain(tensors)
    if rng.random() < 0.3:
        tensors = rng.sample(tensors, rng.randint(1, len(tensors)))
    rng.shuffle(tensors)
    location, count = rng.choice(LOCATIONS), rng.choice((1, 1, 2, 1 + len(tensors)))
    alignment, shift = rng.choice(_ALIGNMENTS), rng.choice((0, 0, 1, 3))
    ends = [0] * count
    for tensor in tensors:
        number = rng.randrange(count)
        start = -(-ends[number] // alignment) * alignment + (shift if ends[number] else 0)
        ends[number] = start + len(tensor.raw_data)
        entries = {"location": f"{location}{number or ''}", "offset": start}
        entries["length"] = len(tensor.raw_data)
        if not start and rng.random() < 0.5:
            del entries["offset"]  # which is 0 by default
        del tensor.external_data[:]
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=str(value))


RULES = (values_renamed, external_data)
