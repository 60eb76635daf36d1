"""Every operator: intervals contain what they must, native results lie in the envelope."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from nnfuzz.check import instances, reference_implementations
from nnfuzz.check.instances import OpInstance
from nnfuzz.compare.envelope import envelopes, node_intervals
from nnfuzz.compare.reference import reference
from nnfuzz.compare.verdict import compare
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.operators.carriers import settled
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.registry import OpRegistry
from tests.compare.perturb import around, inside

INSTANCES = 6
NAMES = list(OpRegistry.load())


def samples(registry: OpRegistry, name: str) -> Iterator[tuple[Graph, dict[str, np.ndarray]]]:
    """Single-operator graphs with inputs in the operator's domain."""
    spec, rng, values = registry.get(name), random.Random(name), np.random.default_rng(1)
    signatures = spec.signatures()
    found = 0
    for _ in range(10 * INSTANCES):
        rank = rng.randint(spec.inputs[0].ranks[0], min(5, spec.inputs[0].ranks[1]))
        draw = Draw(rng, instances.SIZES)
        instance = instances.solved(spec, rng.choice(signatures), rank, draw)
        if instance is None:
            continue
        arrays, valid = reference_implementations.inputs_for(instance, values)
        if valid:
            found += 1
            yield single(instance), {f"x{i}": np.asarray(a) for i, a in enumerate(arrays)}
        if found == INSTANCES:
            return
    assert found > 0, f"no valid instance of {name}"


def single(instance: OpInstance) -> Graph:
    """The graph of one application, inputs x0, x1 ... and outputs y0, y1 ..."""
    outputs = instance.op.type_transfer(*instance.types)
    ins = [f"x{i}" for i in range(len(instance.types))]
    outs = [f"y{i}" for i in range(len(outputs))]
    values = {n: Value(n, t) for n, t in zip([*ins, *outs], [*instance.types, *outputs])}
    return Graph(values, [Node(instance.op, tuple(ins), tuple(outs))], ins, [], outs)


def native(graph: Graph, params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    arrays = [params[n] for n in graph.inputs]
    return dict(zip(graph.outputs, reference_implementations.run_torch(graph.nodes[0].op, arrays)))


@pytest.mark.parametrize("name", NAMES)
def test_native_results_lie_in_the_envelope(registry, name):
    for graph, params in samples(registry, name):
        envelope = envelopes(graph, params)
        assert compare(envelope, native(graph, params)) == (), (graph.nodes, params)


@pytest.mark.parametrize("name", NAMES)
def test_intervals_contain_the_results_of_all_points_inside(registry, name):
    torch.manual_seed(0)
    rng = random.Random(name)
    for graph, params in samples(registry, name):
        node = graph.nodes[0]
        with torch.inference_mode():
            values = reference(graph, params)
            intervals = {n: around(values[n], rng) for n in graph.inputs}
            given = [intervals[n] for n in node.inputs]
            node_intervals(graph, node, values, intervals)
            for attempt in range(6):
                found = node.op.torch(*[inside(b, attempt % 2 == 0) for b in given])
                found = found if isinstance(found, (tuple, list)) else [found]
                for output, y in zip(node.outputs, found):
                    interval = intervals[output]
                    y = settled(y, graph.type(output).dtype)
                    y = y.double() if interval.lo.is_floating_point() else y
                    ok = ((y >= interval.lo) & (y <= interval.hi)) | interval.mask()
                    assert bool(ok.all()), (node, y[~ok], interval.lo[~ok], interval.hi[~ok])


def scaled(y: np.ndarray) -> np.ndarray:
    return y * (1 + 1e-4)


def narrowed(y: np.ndarray) -> np.ndarray:
    """float16 where the dtype is wider."""
    with np.errstate(over="ignore"):
        return y.astype(np.float16)


@pytest.mark.parametrize("name", ["Exp", "Tanh", "Conv", "MatMul", "Softmax", "Gelu", "Div", "Pow"])
@pytest.mark.parametrize("fault", [scaled, narrowed])
def test_subtle_faults_are_caught(registry, name, fault):
    caught = tried = 0
    for graph, params in samples(registry, name):
        if not graph.type("y0").dtype.is_float or graph.type("y0").dtype.value == "float16":
            continue
        good = native(graph, params)
        bad = {n: np.asarray(fault(y)).astype(y.dtype) for n, y in good.items()}
        if all(np.array_equal(good[n], bad[n]) for n in good):
            continue
        tried += 1
        caught += compare(envelopes(graph, params), bad) != ()
    assert tried and caught == tried


def test_erf_for_tanh_is_caught(build):
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    b = build(x=x)
    graph, params = b.done(b.add("Gelu", "x", approximate="none"))
    other = torch.nn.functional.gelu(torch.from_numpy(x), approximate="tanh").numpy()
    assert compare(envelopes(graph, params), {graph.outputs[0]: other})


def test_an_uncertain_remainder_of_0_is_not_compared(build):
    """Floor(x / x) is 0 where the quotient is a product with a reciprocal: all of x is left."""
    builder = build(a=np.ones(1, np.float32), b=np.full((1, 1), -1.7, np.float32))
    x = builder.add("MatMul", "a", "b")
    graph, params = builder.done(y := builder.add("Mod", x, x, fmod=0))
    assert envelopes(graph, params)[y].any.all()
    far = build(a=np.full(1, 5.0, np.float32), b=np.ones((1, 1), np.float32))
    graph, params = far.done(y := far.add("Mod", far.add("MatMul", "a", "b"), "a", fmod=1))
    assert not envelopes(graph, params)[y].any.all()
