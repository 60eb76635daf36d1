"""Every attribute of ONNX is set by some model, and what is written is read again."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest

from nnfuzz.check.instances import SIZES, OpInstance, solved
from nnfuzz.check.runtimes import one_node
from nnfuzz.check.versions import legal_opsets
from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.reference import ReferenceFault
from nnfuzz.inputs.search import NotFound, search
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.opset_imports import OWN_DOMAINS
from nnfuzz.materialize.emit import emit_model
from nnfuzz.materialize.importing import import_onnx, rename
from nnfuzz.materialize.static import OnnxImportError
from nnfuzz.materialize.walk import graphs
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.foreign import Opaque
from nnfuzz.operators.operator import OpSpec, operator
from nnfuzz.operators.registry import OpRegistry
from opspecs.reduce import ArgMax
from opspecs.shape import Transpose

DRAWS = 60
"""Instances of an operator; up to four times as many if it has many signatures."""
AGAIN = 4
"""Times as many instances are drawn of an operator before one of its attributes is called unset."""
Attribute = tuple[str, str]
"""The name of an ONNX operator, and of an attribute of it."""


def reach_problems(
    specs: Iterable[type[OpSpec]], seed: int = 0, draws: int = DRAWS
) -> Iterator[str]:
    """One line for each attribute that is never set and has no declared reason, or is set in spite
    of one.

    specs: all operators, since one may set what another does not.
    """
    specs = list(specs)
    used, settable = attributes_reached(specs, seed, draws)
    reasons = {(spec.name, name): why for spec in specs for name, why in spec.unset.items()}
    rare = {operator for operator, _ in settable - used - reasons.keys()}
    again = [spec for spec in specs if spec.name in rare]
    used |= attributes_reached(again, seed + 1, AGAIN * draws)[0]
    for op, name in sorted(settable - used - reasons.keys()):
        yield f"{op}: attribute {name} is never set to anything but its default"
    for op, name in sorted(reasons.keys() & used):
        yield f"{op}: attribute {name} is set, and is declared never to be (`unset`)"


def attributes_reached(
    specs: Iterable[type[OpSpec]], seed: int = 0, draws: int = DRAWS
) -> tuple[set[Attribute], set[Attribute]]:
    """The attributes that some lowering sets to another value than the default; all attributes."""
    used: set[Attribute] = set()
    settable: set[Attribute] = set()
    for spec in specs:
        for model in lowerings(spec, random.Random(f"{seed}:{spec.name}"), draws):
            opset = model.opset_import[0].version
            for node in (node for graph in graphs(model.graph) for node in graph.node):
                if node.domain in OWN_DOMAINS:  # onnx has no schemas of others
                    defaults = _defaults(node.op_type, opset)
                    settable |= {(node.op_type, name) for name in defaults}
                    used |= {
                        (node.op_type, a.name)
                        for a in node.attribute
                        if a.name in defaults
                        and onnx.helper.get_attribute_value(a) != defaults[a.name]
                    }
    return used, settable


def lowerings(spec: type[OpSpec], rng: random.Random, draws: int) -> Iterator[onnx.ModelProto]:
    """Models of single instances, over signatures, ranks and legal opsets in turn."""
    lo, hi = spec.inputs[0].ranks
    kinds = list(itertools.product(spec.signatures(), range(lo, hi + 1)))
    rng.shuffle(kinds)
    draw = Draw(rng, SIZES)
    count = max(draws, min(2 * len(kinds), 4 * draws))
    for signature, rank in itertools.islice(itertools.cycle(kinds), count):
        legal = legal_opsets(spec, signature)
        if legal and (instance := solved(spec, signature, rank, draw)):
            yield one_node(instance, instance.op.type_transfer(*instance.types), rng.choice(legal))


@cache
def _defaults(operator: str, opset: int) -> dict[str, Any]:
    """The attributes of an operator but for graphs and types, with their default values."""
    kinds = onnx.defs.OpSchema.AttrType
    schema = onnx.defs.get_schema(operator, max_inclusive_version=opset)
    return {
        name: onnx.helper.get_attribute_value(a.default_value) if a.default_value.type else None
        for name, a in schema.attributes.items()
        if a.type not in (kinds.GRAPH, kinds.TYPE_PROTO)
    }


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


@pytest.fixture(scope="module")
def specs():
    return OpRegistry.load().specs()


@pytest.mark.slow
def test_every_attribute_is_set_now_and_then_or_there_is_a_reason(specs):
    assert list(reach_problems(specs)) == []


def test_an_attribute_that_nobody_sets_is_a_problem():
    class First(ArgMax):
        select_last_index = 0

        def onnx(self, emit, x):
            return emit("ArgMax", x, axis=self.axis, keepdims=self.keepdims)

    (line,) = reach_problems([operator(First)])
    assert line == "ArgMax: attribute select_last_index is never set to anything but its default"


def test_a_reason_for_what_is_set_after_all_is_a_problem():
    class Odd(Transpose):
        name = "Transpose"
        unset: ClassVar = {"perm": "it moves nothing"}

    (line,) = reach_problems([operator(Odd)])
    assert "perm is set, and is declared never to be" in line


def test_what_is_reached_depends_on_the_seed_alone(specs):
    some = [spec for spec in specs if spec.name in ("Conv", "MaxPool", "Cast")]
    assert attributes_reached(some, 3, 20) == attributes_reached(some, 3, 20)


REGISTRY = OpRegistry.load()
SOME_LOST = """Attention AttentionWindowed ConstantOfShape Range Constant Col2Im OneHot LessOrEqual
    RangeUpTo MelWeightMatrix Unique RNN GRU LSTM ResizeNearest ResizeLinear RoiAlign RoiAlignMax
    MaxRoiPool ConcatFromSequence SequenceAt SplitToSequence NonMaxSuppression
    com.microsoft.Unique""".split()
"""Operators of which some form comes back with less to compare than before."""


NAMES = [spec.name for spec in REGISTRY.specs()]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SOME_LOST])
def test_what_is_written_says_as_much_when_it_is_read(name):
    trips = list(round_trips(REGISTRY.get(name), REGISTRY, 2))
    assert trips
    assert not [str(trip) for trip in trips if not trip.compared]


@pytest.mark.parametrize("name", ["Pad", "Gather", "MatMulInteger", "QuantizeLinear"])
def test_the_attributes_are_those_that_were_written(name):
    """But for a Pad that wraps below opset 19, which is composed of others."""
    trips = list(round_trips(REGISTRY.get(name), REGISTRY, 4))
    composed = [t for t in trips if t.opset < 19 and t.instance.op.attributes.get("mode") == "wrap"]
    assert trips and all(trip.itself for trip in trips if trip not in composed)
