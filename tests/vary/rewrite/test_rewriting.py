"""Every rewrite keeps the meaning: on a model that has a place for each, and on generated ones."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from nnfuzz.backends.onnxruntime import OnnxRuntime
from onnx import numpy_helper, parser

from nnfuzz.backend.interface import read_interface
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from nnfuzz.vary.rewrite.draft import Kind
from nnfuzz.vary.rewrite.rewriting import (
    FEATURES,
    RULES,
    USUAL,
    Step,
    draw_rewriting,
    named,
    needs,
    of_kinds,
    rewritten,
)
from nnfuzz.vary.rewrite.variations import Rewrites

TRIES = 3
EVERYTHING = """
<ir_version: 9, opset_import: ["" : 20]>
everything (float[2, 3] x, float[1, 3, 4, 4] image, bool[3] c, int64[2] n) =>
           (float[2, 2] product, float[1, 3, 1, 1] mean, float[1, 3, 1, 1] pooled, bool[2, 3] less,
            float[2, 3] chosen, float[1, 3, 4, 4] normal, float[2, 3] joined, int64[2] sum,
            float[3, 2] moved, float[1, 3, 4, 4] mapped, float[1, 3, 2, 2] most)
<
  float[3, 2] w = {1.0, 2.0, 0.5, -1.0, 0.25, 3.0}, float[3, 3, 1, 1] k = {1.0, 0.0, 2.0, 0.5, 1.0,
  0.0, -1.0, 1.0, 2.0}, float[3] s = {1.0, 0.5, 2.0}, float[3] v = {1.0, 1.0, 1.0},
  int64[2] spatial = {2, 3}, float lo = {-1.0}, float hi = {1.0},
  int64[2] parts = {1, 2}, int64[2] shape = {3, 2}, int64 one = {1}, int64 uno = {1}
>
{
   mapped = Conv (image, k)
   mean = ReduceMean <keepdims = 1> (mapped, spatial)
   pooled = GlobalAveragePool (image)
   most = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (image)
   normal = BatchNormalization <epsilon = 1.0e-5> (image, s, s, s, v)
   r = Relu (x)
   t = Transpose <perm = [1, 0]> (r)
   product = MatMul (r, w)
   a = Abs (x)
   b = Neg (x)
   d = Clip (b, lo, hi)
   less = Less (a, d)
   chosen = Where (c, a, d)
   e, f = Split <axis = 1> (d, parts)
   joined = Concat <axis = 1> (e, f)
   summed = CumSum (a, uno)
   m = Max (a, d, b, summed)
   again = Relu (x)
   g = Add (m, again)
   h = Sub (g, a)
   moved = Reshape (h, shape)
   unused = Transpose <perm = [1, 0]> (t)
   p = Add (n, one)
   q = Mul (p, uno)
   sum = Add (q, one)
}
"""


@pytest.fixture(scope="module")
def everything() -> bytes:
    model = parser.parse_model(EVERYTHING)
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    del model.graph.initializer[:]
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def run(model: bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    pytest.importorskip("onnxruntime")
    backend = OnnxRuntime()
    return backend.compile(backend.import_model(model), "O0")(inputs)


def inputs_of(model: bytes) -> dict[str, np.ndarray]:
    rng, inputs = np.random.default_rng(0), {}
    for name, spec in read_interface(model)[0].items():
        shape = [size or 1 for size in spec.shape]
        inputs[name] = (4 * rng.standard_normal(shape)).astype(spec.dtype)
    return inputs


def holds(model: bytes, other: bytes, inputs: dict[str, np.ndarray], bits: bool) -> None:
    """The checker accepts it, the interface is kept, and so is the result."""
    onnx.checker.check_model(onnx.load_model_from_string(other), full_check=True)
    before, after = read_interface(model), read_interface(other)
    assert list(before[0]) == list(after[0]) and before[1] == after[1]
    results = run(other, inputs)
    for name, array in run(model, inputs).items():
        assert (array.dtype, array.shape) == (results[name].dtype, results[name].shape)
        if bits:
            np.testing.assert_array_equal(results[name], array)
        else:
            np.testing.assert_allclose(results[name], array, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", of_kinds(*USUAL, Kind.EMPTY))
def test_a_rule_keeps_the_meaning(everything, name):
    inputs = inputs_of(everything)
    for number in range(TRIES):
        other, done = rewritten(everything, [Step(name, number)])
        assert done == (Step(name, number),), "there is no place for it in the model"
        holds(everything, other, inputs, RULES[name].bits)


def test_drawn_sequences_keep_the_meaning(everything):
    inputs, rules = inputs_of(everything), set()
    for seed in range(40):
        other, steps = draw_rewriting(everything, random.Random(seed))
        assert steps and rewritten(everything, steps) == (other, steps)
        rules |= {step.rule for step in steps}
        holds(everything, other, inputs, all(RULES[step.rule].bits for step in steps))
    assert len(rules) > 20


@pytest.mark.parametrize("opset", [13, 26])
def test_generated_models_keep_their_meaning(opset):
    producer = Producer(opset, CaseConfig(exporter="direct", opset=opset, rewrites=1.0, nodes=5))
    plain = Producer(opset, CaseConfig(exporter="direct", opset=opset, nodes=5))
    for index in range(12):
        case = producer.produce(index)
        if not isinstance(case, TestCase) or not case.plain:
            continue
        other = plain.produce(index)
        assert other.model == case.plain and other.exporter == "direct"
        assert other.inputs.keys() == case.inputs.keys()
        onnx.checker.check_model(onnx.load_model_from_string(case.model), full_check=True)
        lowered = producer.lower(case)
        assert (lowered.model, lowered.plain, lowered.exporter) == (case.plain, b"", "direct")
        assert producer.expose(case).exporter.startswith("direct")


def test_every_rule_says_why(everything):
    for name, rule in RULES.items():
        assert "->" in rule.obligation, name
        assert rule.obligation.endswith("."), name


def test_a_step_is_text():
    assert Step.parse("times_one#17") == Step("times_one", 17)
    assert str(Step("times_one", 17)) == "times_one#17"
    with pytest.raises(KeyError, match="times_one"):
        named("times_two")


def test_a_place_outlives_the_rest_of_the_model(everything):
    """What is taken is told by the names of values, so that a smaller model has it at the same."""
    model = onnx.load_model_from_string(everything)
    step = Step("cast_wider", 1)
    where = reads_cast(rewritten(everything, [step])[0])
    kept = {"r", "a", "b", "d", "g", "m", "again", "h", "moved", where}
    nodes = [node for node in model.graph.node if {*node.output} & kept]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    outputs = [v for v in model.graph.output if v.name in kept]
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    if where in kept - {"x", "image"}:
        assert reads_cast(rewritten(model.SerializeToString(), [step])[0]) == where


def reads_cast(model: bytes) -> str:
    """What the first of two casts reads."""
    graph = onnx.load_model_from_string(model).graph
    makers = {node.output[0]: node for node in graph.node}
    return next(
        first.input[0]
        for node in graph.node
        if node.op_type == "Cast"
        and (first := makers.get(node.input[0])) is not None
        and first.op_type == "Cast"
        and first.output[0].startswith("Cast_")
    )


def test_what_a_compiler_does_not_take_is_not_brought_in():
    lacking = tuple(FEATURES)
    config = CaseConfig(exporter="direct", opset=20, rewrites=1.0, unrewritten=lacking, nodes=3)
    variations = Producer(0, config).generator_for(0).variations
    ((rules, share),) = [(v.rules, v.share) for v in variations if isinstance(v, Rewrites)]
    assert share == 1.0 and 15 < len(rules) < len(RULES) - 8
    assert not any(needs(RULES[name], what) for name in rules for what in lacking)
    for what, rule in FEATURES.items():
        assert needs(RULES[rule], what)
