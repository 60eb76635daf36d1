"""Batch laws hold: an operator on slices in other company gives the same slices."""

from __future__ import annotations

import onnx
import pytest
from nnfuzz.backends.onnxruntime import OnnxRuntime
from onnx import parser

from nnfuzz.backend.target import Target
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.rewrite.axis_laws import LAWS, law
from nnfuzz.rewrite.draft import Draft
from nnfuzz.rewrite.rewriting import Step, rewritten
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.identity import Probe
from nnfuzz.testcase.producer import Producer

RULES = ("batch_stacked", "batch_in_parts")
TARGET = Target("onnxruntime")


def laws_of(text: str, place: int) -> list[tuple | None]:
    """(axes of operands, axes of outputs) for each axis of an operand of the first node."""
    draft = Draft(parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> g {text}'))
    node = draft.graph.node[0]
    found = (law(draft, node, place, axis) for axis in range(draft.rank(node.input[place])))
    return [(dict(f.inputs), list(f.outputs)) if f else None for f in found]


def test_what_is_summed_over_is_no_batch():
    matmul = "(float[5,2,3] a, float[5,3,4] b) => (float[5,2,4] y) { y = MatMul (a, b) }"
    assert laws_of(matmul, 0) == [({0: 0, 1: 0}, [0]), ({0: 1}, [1]), None]
    assert laws_of(matmul, 1) == [({1: 0, 0: 0}, [0]), None, ({1: 2}, [2])]


def test_an_operand_that_is_broadcast_serves_every_slice():
    add = "(float[5,3] a, float[3] b) => (float[5,3] y) { y = Add (a, b) }"
    assert laws_of(add, 0) == [({0: 0}, [0]), ({0: 1, 1: 0}, [1])]
    wide = "(float[1,3] a, float[5,3] b) => (float[5,3] y) { y = Add (a, b) }"
    assert laws_of(wide, 0)[0] is None, "what has one slice for five is no batch of five"


def test_a_gemm_has_rows_and_columns():
    text = """(float[2,5] a, float[2,4] b, float[4] c) => (float[5,4] y)
              { y = Gemm <transA = 1> (a, b, c) }"""
    assert laws_of(text, 0) == [None, ({0: 1}, [0])]
    assert laws_of(text, 1) == [None, ({1: 1, 2: 0}, [1])]


def test_an_axis_goes_through_a_reshape_that_keeps_it():
    text = """(float[2,3,4] x) => (float[2,12] y) <int64[2] s = {2, -1}> { y = Reshape (x, s) }"""
    assert laws_of(text, 0) == [({0: 0}, [0]), None, None]


def test_what_looks_at_all_elements_has_no_law():
    text = """(float[2,3] x) => (uint8[2,3] y, float s, uint8 z)
              { y, s, z = DynamicQuantizeLinear (x) }"""
    assert laws_of(text, 0) == [None, None]
    indexed = """(float[2,3,4] x) => (float[2,3,3] y, int64[2,3,3] i)
                 { y, i = MaxPool <kernel_shape = [2]> (x) }"""
    assert laws_of(indexed, 0) == [None, None, None], "its indices count over the batch"


@pytest.mark.parametrize("opset", [20, 26])
def test_every_law_holds(opset):
    """One model per operator with a law and class of signatures, held against the envelope."""
    backend = OnnxRuntime()
    producer = Producer(0, CaseConfig(exporter="direct", opset=opset))
    had: set[str] = set()
    for key in _keys(producer):
        case = producer.made(Probe(SupportKey.parse(f"direct:{key}"), 1))
        model = case.model if isinstance(case, TestCase) else b""
        if not isinstance(case, TestCase) or _outside(backend, producer, case, model):
            continue
        for step in (Step(rule, number) for rule in RULES for number in range(2)):
            after, done = rewritten(model, [step])
            if done:
                onnx.checker.check_model(onnx.load_model_from_string(after), full_check=True)
                assert not _outside(backend, producer, case, after), f"{key} {step}"
                had |= {node.op_type for node in onnx.load_model_from_string(model).graph.node}
    assert len(had & LAWS.keys()) > 90


def _keys(producer: Producer) -> list[str]:
    """One signature for each operator of which a law is known by its name, of float32 if it can."""
    keys = sorted(producer.signatures()["direct"], key=lambda key: "float32" not in key)
    return list({key.partition("(")[0]: key for key in keys[::-1]}.values())


def _outside(backend: OnnxRuntime, producer: Producer, case: TestCase, model: bytes) -> bool:
    """Whether a model is refused or gives something else."""
    try:
        outputs = backend.compile(backend.import_model(model), "O0")(case.inputs)
    except Exception:
        return model is case.model or model == case.model
    return bool(producer.judge(case, {TARGET: outputs}).mismatches.get(TARGET))
