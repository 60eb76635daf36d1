"""Random graphs: no false alarm with ONNX Runtime, planted faults inside of them are caught."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.compare.envelope import envelopes
from nnfuzz.compare.verdict import compare
from nnfuzz.materialize.emit import emit_model
from nnfuzz.operators.carriers import array, settled, tensor
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from tests.models import is_refusal

CASES = 30


WRONG = (
    "Attention BitCast BlockQuantizeLinear Col2Im ConvInteger DFT Einsum LRN Loop Max Min Mod "
    "QLinearConv ReduceL1 ReduceSum ResizeCubic ResizeLinear Scan Shrink"
).split()
"""What nnfuzz has found ONNX Runtime 1.31 to get wrong for some inputs."""


COARSE = {"RoiAlignMax", "DynamicQuantizeLinear"}
"""Operators whose correct results may differ by more than one in a thousand: ONNX allows two
readings of RoiAlign's maximum, and a number halfway between two steps of a grid may go to either.
"""


@pytest.fixture(scope="module")
def cases():
    """(graph, inputs and weights, test case) of ten nodes each."""
    return made(CaseConfig(exporter="direct"))


def made(config, count=CASES):
    producer = Producer(15, config)
    found = [c for c in map(producer.produce, range(count)) if isinstance(c, TestCase)]
    assert len(found) == count
    return [(producer.load(c), {**c.inputs, **c.weights}, c) for c in found]


def test_onnxruntime_lies_in_the_envelope_at_two_levels():
    pytest.importorskip("onnxruntime")
    backend = BackendRegistry.discover().get("onnxruntime")()
    ran = 0
    # Some operators, of other domains above all, have kernels for few of their dtypes.
    for graph, params, case in made(CaseConfig(exporter="direct", exclude=tuple(WRONG)), 40):
        envelope = envelopes(graph, params)
        assert compare(envelope, case.expected) == (), case.id
        weights = {n: params[n] for n in graph.weights}
        model = emit_model(graph, weights, case.opset).SerializeToString()
        for level in ("O0", "O3"):
            try:
                outputs = backend.compile(backend.import_model(model), level)(case.inputs)
            except Exception as error:
                assert is_refusal(backend, error), error
                continue
            assert compare(envelope, outputs) == (), (case.id, level)
            ran += 1
    assert ran >= CASES


def test_most_elements_are_comparable(cases):
    shares = [
        np.mean(
            [e.comparable.mean() for e in envelopes(graph, params).values() if e.comparable.size]
        )
        for graph, params, _ in cases
    ]
    assert np.mean(shares) > 0.9


def test_a_wrong_kernel_inside_of_a_graph_is_caught():
    """The last node that yields floats is 1e-3 off, relatively. No value has a dtype of 16 bits, to
    which a compiler may round by as much."""
    tried = caught = 0
    dtypes = {"float32": 8.0, "float64": 1.0, "int64": 1.0, "bool": 1.0}
    dtypes |= dict.fromkeys(("bfloat16", "float16"))
    for graph, params, case in made(CaseConfig(exporter="direct", dtypes=dtypes)):
        victims = [n for n in graph.nodes if graph.type(n.outputs[0]).dtype.value == "float32"]
        if not victims or any(n.op.name in COARSE for n in graph.nodes):
            continue
        wrong = _run(graph, params, victims[-1])
        right = envelopes(graph, params)
        there = {n: right[n].comparable for n in wrong}  # others are behind subnormal numbers
        if not any(_changed(case.expected[n][there[n]], wrong[n][there[n]]) for n in wrong):
            continue
        tried += 1
        caught += compare(right, wrong) != ()
    assert tried > CASES / 4
    assert caught == tried


def _changed(right, wrong):
    """Whether some element differs by a normal number: below, compilers may round to zero."""
    least = float(np.finfo(np.float32).tiny)
    with np.errstate(invalid="ignore"):  # infinity less infinity
        return bool((np.abs(wrong.astype(float) - right.astype(float)) > least).any())


def _run(graph, params, victim):
    values = {n: tensor(a) for n, a in params.items()}
    with torch.inference_mode():
        for node in graph.nodes:
            found = node.op.torch(*[values[n] for n in node.inputs])
            found = list(found) if isinstance(found, (tuple, list)) else [found]
            if node is victim:
                found[0] = found[0] * (1 + 1e-3)
            dtypes = [t.dtype for t in graph.types(node.outputs)]
            values.update(zip(node.outputs, map(settled, found, dtypes)))
    return {n: array(values[n], graph.type(n).dtype) for n in graph.outputs}
