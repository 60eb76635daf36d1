"""Values of small graphs, ready for the writers of quantised operators."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

import torch

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.motif import Misfit
from nnfuzz.vary.quantize.codes import Values
from nnfuzz.vary.quantize.draft import Draft, Form
from tests.inputs.graphs import REGISTRY

OPSET = 21


def form(refused: Iterable[str] = ()) -> Form:
    """All operators of ONNX and of com.microsoft but some signatures."""
    config = GenerateConfig(opset=OPSET, refused=frozenset(refused))
    specs = [spec for spec in REGISTRY.specs() if spec.since <= OPSET]
    return Form(Catalog(specs, config), "direct", OPSET)


def values_of(graph: Graph, seed: int, what: Form) -> Values:
    """The inputs and weights of a graph, with random values, in a draft."""
    draft, generator = Draft(what), torch.Generator().manual_seed(seed)
    for name in (*graph.inputs, *graph.weights):
        type_ = graph.type(name)
        draft.graph.values[name] = Value(name, TensorType(type_.dtype, type_.shape))
        draft.values[name] = torch.randn(type_.sizes, generator=generator)
    draft.graph.inputs, draft.graph.weights = list(graph.inputs), list(graph.weights)
    values = Values(draft, random.Random(seed), graph.weights)
    for name in draft.graph.values:
        values.hold(name)
    return values


def written(
    graph: Graph,
    write: Callable[[Values, Node], None],
    seeds: Iterable[int],
    what: Form | None = None,
) -> list[Values]:
    """What a writer makes of the only node of a graph for each seed; misfits are left out."""
    what = what or form()
    found = []
    for seed in seeds:
        values = values_of(graph, seed, what)
        try:
            write(values, graph.nodes[0])
        except Misfit:
            continue
        values.draft.graph.outputs = [values.read(name) for name in graph.outputs]
        values.draft.graph.verify()
        found.append(values)
    return found


def operators(values: Values) -> list[str]:
    return [node.op.name for node in values.draft.graph.nodes]


def near(found: Sequence[Values], graph: Graph) -> bool:
    """Whether a third of the results are near the original's; others are cut off, or of 4 bits."""
    return 3 * sum(error(values, graph) < 0.05 for values in found) >= len(found)


def error(values: Values, graph: Graph) -> float:
    """The greatest difference from the original's output, relative to that one's greatest."""
    draft, node = values.draft, graph.nodes[0]
    y = node.op.torch(*[draft.values[name] for name in node.inputs])
    found = draft.values[draft.graph.outputs[0]]
    return float((found - y).abs().max() / y.abs().max())
