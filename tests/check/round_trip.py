"""Does what direct emission writes come back as the operator that it was?

An instance of an operator becomes a model of one node of the graph, and the model is imported
again. It should come back as an instance of the same spec; at least, the envelope should say as
much about the model's outputs as before.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnfuzz.check.instances import SIZES, OpInstance, solved
from nnfuzz.check.versions import legal_opsets
from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.reference import ReferenceFault
from nnfuzz.inputs.search import NotFound, search
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.materialize.emit import emit_model
from nnfuzz.materialize.importing import import_onnx, rename
from nnfuzz.materialize.static import OnnxImportError
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.foreign import Opaque
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.registry import OpRegistry

RANKS = 6
TRIES = 6
"""Drawn instances per wanted one; some have no solution or no valid input."""


@dataclass(frozen=True)
class RoundTrip:
    """What became of an instance, written at an opset.

    weights: how many of its inputs, counted from the last, were constants of the model. operators:
    the specs of the nodes that came back; of an opaque node the ONNX operators in brackets.
    before, after: the share of output elements that can be compared.
    """

    instance: OpInstance
    opset: int
    weights: int
    operators: tuple[str, ...]
    before: float
    after: float
    problem: str = ""

    @property
    def itself(self) -> bool:
        """Whether it came back as one instance of the same spec."""
        return self.operators == (self.instance.op.name,)

    @property
    def compared(self) -> bool:
        """Whether as much can be compared as before."""
        return self.after >= self.before

    def __str__(self) -> str:
        came = self.problem or ", ".join(self.operators)
        return (
            f"{self.instance} at opset {self.opset}, {self.weights} weights: {came}; "
            f"{self.after:.0%} compared, {self.before:.0%} before"
        )


def round_trips(
    spec: type[OpSpec], registry: OpRegistry, count: int, seed: int = 0
) -> Iterator[RoundTrip]:
    """Up to `count` round trips of an operator, over its signatures, opsets, ranks and attributes.

    They are a function of the operator and the seed. An instance without valid inputs is left out.
    """
    rng = random.Random(f"{seed}:{spec.name}")
    draw, made = Draw(rng, SIZES), 0
    legal = {i: legal_opsets(spec, s) for i, s in enumerate(spec.signatures())}
    kept = [i for i, opsets in legal.items() if opsets]
    rng.shuffle(kept)
    for attempt in range(TRIES * count if kept else 0):
        number = kept[attempt % len(kept)]
        lo, hi = spec.inputs[0].ranks
        rank = draw.integer(lo, min(hi, RANKS - 1))
        instance = solved(spec, spec.signatures()[number], rank, draw)
        opset = rng.choice(legal[number])
        trip = None if instance is None else _trip(instance, opset, attempt % 2, registry, rng)
        if trip is not None:
            yield trip
            made += 1
        if made == count:
            return


def _trip(
    instance: OpInstance, opset: int, constants: int, registry: OpRegistry, rng: random.Random
) -> RoundTrip | None:
    weights = (len(instance.types) - 1) * constants
    graph = _graph(instance, weights)
    found = search(graph, rng)
    if isinstance(found, NotFound):
        return None
    params = {**found.inputs, **found.weights}
    before = _share(graph, params, graph)
    try:
        model = emit_model(graph, found.weights, opset)
        imported = import_onnx(model, registry, opset)
    except OnnxImportError as error:
        return RoundTrip(instance, opset, weights, (), before, 0.0, str(error))
    again = imported.graph
    rename(again, imported.names)
    params = {**imported.constants, **params}
    lost = "; ".join(f"{kind}: {why}" for kind, why in imported.lost)
    try:
        after = _share(again, params, graph)
    except ReferenceFault as error:
        after, lost = 0.0, str(error)
    return RoundTrip(instance, opset, weights, tuple(_named(again)), before, after, lost)


def _graph(instance: OpInstance, weights: int) -> Graph:
    """A graph of the instance alone; the last inputs are weights."""
    outputs = instance.op.type_transfer(*instance.types)
    types = {f"x{i}": t for i, t in enumerate(instance.types)}
    made = {f"y{i}": t for i, t in enumerate(outputs)}
    names = list(types)
    split = len(names) - weights
    return Graph(
        {name: Value(name, type_) for name, type_ in (types | made).items()},
        [Node(instance.op, tuple(types), tuple(made))],
        names[:split],
        names[split:],
        list(made),
    )


def _share(graph: Graph, params: Mapping[str, np.ndarray], wanted: Graph) -> float:
    """The share of the elements of the wanted graph's outputs that can be compared in a graph."""
    given = {name: params[name] for name in (*graph.inputs, *graph.weights) if name in params}
    if len(given) < len(graph.inputs) + len(graph.weights):
        return 0.0
    bounds = enclosure(graph, given).envelopes
    told = sum(int(bounds[name].comparable.sum()) for name in wanted.outputs if name in bounds)
    return told / max(1, sum(wanted.type(name).elements for name in wanted.outputs))


def _named(graph: Graph) -> Sequence[str]:
    return [
        f"[{', '.join(p.op_type for p in n.op.graph.node)}]"
        if isinstance(n.op, Opaque)
        else n.op.name
        for n in graph.nodes
    ]
