"""Operator specs: what is drawn, declared, registered and filled in."""

from __future__ import annotations

import json
import math
import random
from types import ModuleType

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from nnfuzz.opspecs.bodies import TAME, WILD

from nnfuzz.check.operators import check_operators
from nnfuzz.check.questions import example_of
from nnfuzz.check.runtimes import EVALUATOR
from nnfuzz.ir.dtypes import FLOAT8S, FLOATS, DType
from nnfuzz.ir.expr import Var
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.emit import Emitter
from nnfuzz.materialize.importing import import_onnx
from nnfuzz.operators.attributes import Choice, Real, Sym, encode, readable
from nnfuzz.operators.body import Body
from nnfuzz.operators.carriers import array, rounded, settled, tensor, unfit
from nnfuzz.operators.draw import Draw, NoOptionError
from nnfuzz.operators.expanded import flat
from nnfuzz.operators.families.control import DTYPES
from nnfuzz.operators.operator import ConstraintError, In, OpSpec, operator
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.operators.rounding import by_squares, largest_first
from nnfuzz.operators.waiver import Waiver, reference
from nnfuzz.operators.waiver import body as at_body
from tests.check.test_questions import on, said, spec_of
from tests.materialize.test_older import CHOOSING

REGISTRY = OpRegistry.load()


@operator
class Window(OpSpec):
    """Cuts a window of `size` out of the last axis."""

    inputs = (In("T", FLOATS, (1, 4)), In("I", (DType.INT64,), (0, 1)))
    size = Sym(1, 64)
    offsets = Sym(0, 8, lambda op, x, *_: x.rank, "offset")
    mode = Choice(("plain", "wrapped"))
    scale = Real(0.5, 2.0)
    to = Choice((DType.FLOAT32, DType.BOOL))
    output = "to"

    def requires(self, x, index):
        yield self.size <= x.shape[-1]

    def type_transfer(self, x, index):
        return [TensorType(self.to, (*x.shape[:-1], self.size))]


@pytest.fixture
def drawn():
    draw = Draw(random.Random(1))
    first = draw.tensor(DType.FLOAT32, 3)
    return Window.draw(draw, first), first


def settle(op, *types):
    """The operator and types with every variable at its least value."""
    dims = [d for t in types for d in t.shape]
    env = {v: v.lo for v in (*dims, op.size, *op.offsets) if isinstance(v, Var)}
    return op.concrete(env), [t.concrete(env) for t in types]


def test_attributes_are_drawn_by_declaration(drawn):
    op, _ = drawn
    assert isinstance(op.size, Var) and (op.size.lo, op.size.hi) == (1, 64)
    assert len(op.offsets) == 3
    assert op.mode in ("plain", "wrapped") and op.to in (DType.FLOAT32, DType.BOOL)
    assert 0.5 <= op.scale <= 2.0 and op.scale == float(f"{op.scale:.2g}")


def test_the_same_dice_draw_the_same_operator():
    ops = [Window.draw(Draw(random.Random(7)), TensorType(DType.FLOAT32, (4, 4))) for _ in range(2)]
    assert repr(ops[0]) == repr(ops[1])


def test_wrong_attributes_are_refused():
    with pytest.raises(TypeError, match="takes the attributes"):
        Window(size=3)
    with pytest.raises(TypeError, match="bogus"):
        Window(size=3, offsets=(), mode="plain", scale=1.0, to=DType.BOOL, bogus=1)


def test_attributes_survive_json(drawn):
    op, _ = settle(*drawn)
    again = Window.from_json(json.loads(json.dumps(op.to_json())))
    assert again.attributes == op.attributes
    assert again.to is op.to and isinstance(again.offsets, tuple)


def test_concrete_leaves_the_symbolic_operator_alone(drawn):
    op, _ = drawn
    concrete, _ = settle(*drawn)
    assert concrete.size == 1 and isinstance(op.size, Var)


def test_signatures_are_the_product_of_type_variables_and_output_choices():
    signatures = Window.signatures()
    assert len(signatures) == len(FLOATS) * 2
    assert {out for _, out in signatures} == {DType.FLOAT32, DType.BOOL}
    assert all(binding["I"] is DType.INT64 for binding, _ in signatures)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (["float32[4]"], "takes 2 to 2 inputs, got 1"),
        (["int32[4]", "int64[]"], "input 0 may not be int32"),
        (["float32[4]", "float32[]"], "input 1 may not be float32"),
        (["float32[]", "int64[]"], "input 0 may not have rank 0"),
        (["float32[2]", "int64[]"], "does not admit .* condition 0"),
    ],
)
def test_check_names_the_culprit(types, message):
    op = Window(size=3, offsets=(), mode="plain", scale=1.0, to=DType.BOOL)
    with pytest.raises(ConstraintError, match=message):
        op.check(*map(parsed, types))


def test_check_demands_concrete_conditions(drawn):
    op, first = drawn
    with pytest.raises(ConstraintError, match="not concrete"):
        op.check(first, TensorType(DType.INT64, ()))


def test_inputs_of_one_type_variable_share_their_dtype():
    @operator
    class Pair(OpSpec):
        inputs = (In("T", FLOATS), In("T"))

    with pytest.raises(ConstraintError, match="input 1 may not be float64"):
        Pair().check(parsed("float32[2]"), parsed("float64[2]"))


def test_subclasses_inherit_declarations_and_bring_their_own_name():
    @operator
    class Wider(Window):
        pad = Sym(0, 3)

    assert list(Wider.declared)[-1] == "pad" and Wider.declared.keys() > Window.declared.keys()
    assert (Wider.name, Window.name) == ("Wider", "Window")


def parsed(text):
    dtype, _, dims = text.rstrip("]").partition("[")
    return TensorType(DType(dtype), tuple(int(d) for d in dims.split(",") if d))


# A choice that cannot be made is no mistake in a spec.


def test_one_of_the_options_is_chosen():
    draw = Draw(random.Random(1))
    assert {draw.choice("abc") for _ in range(50)} == {*"abc"}


def test_no_option_is_an_error_of_its_own():
    with pytest.raises(NoOptionError):
        Draw(random.Random(1)).choice([])


# Operators that are computed by plain nodes.


def test_only_the_branch_of_a_known_condition_counts():
    model = onnx.ModelProto()
    model.CopyFrom(CHOOSING)
    del model.graph.input[1:]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(False), "c"))
    graph = import_onnx(model, REGISTRY, 20).graph
    whole, _ = flat(graph, {})
    assert [node.op.name for node in whole.nodes if node.op.name != "Identity"] == [
        "Gather",
        "Relu",
    ]


# Radii of sums.


def trees(rng, terms):
    """The partial sums of one random order of additions."""
    left, sums = list(terms), []
    while len(left) > 1:
        a, b = (left.pop(int(rng.integers(len(left)))) for _ in range(2))
        left.append(a + b)
        sums.append(abs(a + b))
    return sum(sums)


def test_partial_sums_of_no_order_add_up_to_more_than_the_largest_first():
    rng = np.random.default_rng(6)
    for k in (3, 4, 7, 20):
        for terms in (rng.uniform(0, 1, k), rng.normal(0, 1, k), np.exp(rng.normal(0, 4, k))):
            size = torch.from_numpy(np.abs(terms))
            most = (size.sum(0, keepdim=True) + abs(terms.sum())) / 2
            bound = float(largest_first(size, (0,), most))
            assert bound <= float(by_squares((size * size).sum(), k)(most)) * (1 + 1e-12)
            for _ in range(30):
                assert trees(rng, terms) <= bound * (1 + 1e-12)


def test_largest_first_keeps_the_axes_that_are_not_summed():
    x = torch.arange(24.0).reshape(2, 3, 4)
    most = torch.full((2, 1, 1), 1e9)
    rows = [sum(sorted(r.flatten().tolist(), reverse=True)[:n]) for r in x for n in range(2, 13)]
    assert largest_first(x, (1, -1), most).flatten().tolist() == [sum(rows[:11]), sum(rows[11:])]


# Waivers cover the differences that they declare.


def test_a_difference_that_nobody_declares_is_a_problem():
    found = said(spec_of(torch.sin), wanted=2)
    assert found.answers[EVALUATOR]["differs"]
    assert any("are off" in text and EVALUATOR in text for text in found.problems)


def test_a_difference_that_is_declared_is_none():
    waiver = reference("computes something else", "Tanh-13: not at all")
    found = said(spec_of(torch.sin), wanted=2, waivers=on(waiver))
    assert found.waived[waiver] > 0
    assert not any("are off" in text for text in found.problems)
    question, text = example_of(spec_of(torch.sin), waiver, random.Random(0), on(waiver))
    assert "are off" in text and str(question) in question.lines(text)[0]


def test_a_waiver_covers_what_it_says():
    narrow = reference("is wrong", "Tanh-13", dtypes=(DType.FLOAT64,), below=14)
    waivers = on(narrow, at_body("is no better", "Tanh-13"))
    question, _ = example_of(spec_of(torch.sin), narrow, random.Random(0), waivers)
    (type_,) = question.instance.types
    assert type_.dtype is DType.FLOAT64 and question.opset < 14
    op = question.instance.op
    assert waivers.covering(op, 14, [type_]) == [waivers.of("Tanh")[1]]
    assert waivers.covering(op, 13, [type_.with_dtype(DType.FLOAT32)]) == [waivers.of("Tanh")[1]]


def test_a_waiver_names_any_implementation():
    waiver = Waiver("toy", "is wrong", "Tanh-13")
    (found,) = check_operators([spec_of(torch.tanh)], 0, 2, waivers=on(waiver))
    assert found.examples == {} and found.ok


# Where operators are found, and what happens to duplicates and unknown names.


def named(name):
    return operator(type(name, (OpSpec,), {}))


def test_a_second_operator_of_a_name_is_refused():
    registry = OpRegistry([named("Twin")])
    with pytest.raises(ValueError, match="Twin is registered twice"):
        registry.add(named("Twin"))


def test_the_same_operator_may_be_met_again():
    spec = named("Once")
    registry = OpRegistry([spec, spec])
    assert list(registry) == ["Once"]


def test_an_unknown_name_gets_a_hint():
    registry = OpRegistry([named("Sigmoid"), named("Softmax")])
    with pytest.raises(KeyError, match="did you mean Sigmoid"):
        registry.get("sigmoid")
    with pytest.raises(KeyError, match="known: Sigmoid, Softmax"):
        registry.get("?")


def test_select_keeps_the_given_operators_only():
    registry = OpRegistry(map(named, "ABC"))
    assert list(registry.select("CA")) == ["C", "A"]
    with pytest.raises(KeyError, match="unknown operator 'Z'"):
        registry.select("AZ")


def test_a_module_contributes_marked_classes_only():
    module = ModuleType("plugin")
    module.Mine = named("Mine")
    module.Base = type("Base", (OpSpec,), {})
    module.number = 3
    registry = OpRegistry()
    registry.add_module(module)
    assert list(registry) == ["Mine"]


def test_a_subclass_is_not_marked_by_its_base():
    module = ModuleType("plugin")
    module.Mine = named("Mine")
    module.Variant = type("Variant", (module.Mine,), {})
    registry = OpRegistry()
    registry.add_module(module)
    assert list(registry) == ["Mine"]


def test_a_module_declares_waivers_by_operator():
    one, other = (reference(claim, "Tanh-13") for claim in ("is wrong", "is as wrong"))
    module = ModuleType("plugin")
    module.WAIVERS = {"Tanh": [one, other]}
    registry = OpRegistry.load([module])
    registry.add_module(module)
    assert registry.waivers.of("Tanh") == (one, other)
    assert registry.select(["Tanh"]).waivers.of("Tanh") == (one, other)
    assert registry.waivers.of("Erf") and not OpRegistry.load().waivers.of("Tanh")


def test_a_waiver_on_no_operator_is_refused():
    module = ModuleType("plugin")
    module.WAIVERS = {"Tahn": [reference("is wrong", "Tanh-13")]}
    with pytest.raises(KeyError, match="did you mean Tan, Tanh"):
        OpRegistry.load([module])


def test_built_in_operators_come_by_entry_point_and_plugins_after_them():
    module = ModuleType("plugin")
    module.Mine = named("MineAlone")
    registry = OpRegistry.load([module])
    assert "Add" in registry and list(registry)[-1] == "MineAlone"
    assert len(registry) == len(registry.specs()) == len(OpRegistry.load()) + 1


# Bodies: what is drawn fits any size, survives JSON, and gets smaller by and by.


LOOKUP = {spec.name: spec for spec in WILD}.__getitem__


def run(op, *tensors):
    return op.torch(*tensors)


def bodies(count: int, dtype: DType, pool=TAME):
    for seed in range(count):
        draw = Draw(random.Random(seed))
        type_ = draw.tensor(dtype, seed % 5)
        arguments, outputs = 1 + seed % 3, 1 + seed % 2
        yield Body.draw(draw, pool, type_, arguments, outputs), type_


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
def test_bodies_keep_the_type_of_their_arguments(dtype):
    for body, type_ in bodies(30, dtype):
        assert all(condition is True for condition in body.conditions(type_))
        shape = [3] * type_.rank
        arguments = [torch.ones(shape).to(dtype.torch) for _ in range(body.arguments)]
        for result in body.compose(run, arguments):
            assert result.dtype is dtype.torch and list(result.shape) == shape


def test_every_value_of_a_body_is_read_or_comes_out():
    for body, _ in bodies(60, DType.FLOAT32, WILD):
        used = {*body.outputs, *(i for step in body.steps for i in step.inputs)}
        assert used == set(range(body.arguments + len(body.steps)))


def test_shorter_bodies_have_fewer_steps_and_the_same_arguments():
    for body, type_ in bodies(40, DType.FLOAT32):
        while body.steps:
            shorter = list(body.shorter())
            assert all(len(other.steps) < len(body.steps) for other in shorter)
            assert all(condition is True for b in shorter for condition in b.conditions(type_))
            body = shorter[0]
        assert body.arguments and all(i < body.arguments for i in body.outputs)


def test_ranges_tell_what_comes_out_and_what_is_never_valid():
    steps = [["Abs", {}, [0]], ["Neg", {}, [1]], ["Sqrt", {}, [2]]]
    body = Body.from_json({"arguments": 1, "steps": steps, "outputs": [3]}, LOOKUP)
    assert body.ranges([(1.0, 2.0)]) is None
    assert body._without(2, 2).ranges([(-1.0, 2.0)]) == [(-2.0, 0.0)]


# Attributes that hold bodies, as JSON and as text.


def test_bodies_survive_json():
    for body, _ in bodies(40, DType.INT32, WILD):
        again = Body.from_json(json.loads(json.dumps(encode(body))), LOOKUP)
        assert again == body and hash(again) == hash(body)
        assert body.shorter() and all(other != body for other in body.shorter())


def test_a_body_reads_like_a_program():
    steps = [["Add", {}, [0, 1]], ["Clip", {"min": None, "max": 0.5}, [2]]]
    body = {"arguments": 2, "steps": steps, "outputs": [3, 0]}
    assert readable(body) == "(a, b) {c = Add(a, b); d = Clip(c, max=0.5); d, a}"


# What the contract and its families derive, so that specs need not say it.


def backward(op, first_rank, output):
    """(fresh first input, inferred inputs) of an operator in front of an output."""
    draw = Draw(random.Random(3))
    first = draw.tensor(output.dtype, first_rank)
    return first, op.infer_input_types(draw, first, [output.dtype], output)


def test_axes_that_an_operator_leaves_alone_have_the_sizes_of_its_output():
    output = Draw(random.Random(1)).tensor(DType.FLOAT32, 3)
    tile = REGISTRY.get("Tile")(repeats=(1, 3, 1))
    first, (inferred,) = backward(tile, 3, output)
    assert inferred.shape[0] is output.shape[0] and inferred.shape[2] is output.shape[2]
    assert inferred.shape[1] is first.shape[1]


def test_an_operator_that_keeps_the_shape_takes_that_of_its_output():
    output = Draw(random.Random(1)).tensor(DType.INT32, 2)
    _, (inferred,) = backward(REGISTRY.get("Trilu")(k=0, upper=1), 2, output)
    assert inferred.dtype is DType.INT32
    assert all(a is b for a, b in zip(inferred.shape, output.shape, strict=True))


def test_vectors_of_channels_follow_the_inferred_first_input():
    draw = Draw(random.Random(2))
    output = draw.tensor(DType.FLOAT32, 3)
    op = REGISTRY.get("InstanceNormalization")(epsilon=1e-3)
    first = draw.tensor(DType.FLOAT32, 3)
    types = op.infer_input_types(draw, first, [DType.FLOAT32] * 3, output)
    assert all(a is b for a, b in zip(types[0].shape, output.shape, strict=True))
    assert all(len(t.shape) == 1 and t.shape[0] is output.shape[1] for t in types[1:])


@pytest.mark.parametrize(("name", "kept"), [("Tile", set()), ("Trilu", {"upper"})])
def test_attributes_that_onnx_takes_as_inputs_become_initializers(name, kept):
    attributes = {"Tile": {"repeats": (1, 2)}, "Trilu": {"k": -1, "upper": 0}}[name]
    emit = Emitter(20, {"x": TensorType(DType.FLOAT32, (2, 3))})
    REGISTRY.get(name)(**attributes).onnx(emit, "x")
    (node,) = emit.nodes
    (constant,) = emit.initializers
    assert list(node.input) == ["x", constant.name] and constant.data_type == DType.INT64.onnx
    assert {a.name for a in node.attribute} == kept


@pytest.mark.parametrize(
    ("name", "range_", "feasible"),
    [
        ("Tan", (-math.inf, math.inf), True),
        ("Tan", (1.5707, 1.5709), False),
        ("Tan", (0.3, 0.3), True),
        ("Reciprocal", (-1e-4, 1e-4), False),
        ("Reciprocal", (0.0, math.inf), True),
        ("Reciprocal", (-5.0, -5.0), True),
    ],
)
def test_poles_make_narrow_ranges_infeasible(name, range_, feasible):
    assert REGISTRY.get(name)().feasible(range_) is feasible


def test_results_do_not_leave_what_implementations_stay_within():
    assert REGISTRY.get("LogSoftmax")(axis=-1).value_range((-3.0, 3.0)) == (-math.inf, 0.0)
    assert REGISTRY.get("Cosh")().value_range((-1.0, 1.0)) == (1, math.inf)


# Arithmetic in a carrier is arithmetic in the type itself.


RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", list(DType), ids=lambda d: d.value)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_arrays_survive(dtype, shape):
    before = RNG.integers(0, 2, shape).astype(dtype.numpy)
    x = tensor(before)
    after = array(x, dtype)
    assert x.dtype is dtype.torch
    assert after.dtype == before.dtype and after.shape == shape
    assert after.tobytes() == before.tobytes()


@pytest.mark.parametrize("dtype", [DType.UINT16, DType.UINT32, DType.UINT64])
@pytest.mark.parametrize("name", ["Add", "Sub", "Mul"])
def test_unsigned_integers_wrap_around(dtype, name):
    most = int(np.iinfo(dtype.numpy).max)
    a, b = (RNG.integers(0, most, 200, dtype.numpy, endpoint=True) for _ in range(2))
    op = REGISTRY.get(name)()
    found = array(settled(op.torch(tensor(a), tensor(b)), dtype), dtype)
    wanted = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[name](a, b)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [DType.INT4, DType.UINT4])
def test_four_bits_keep_the_low_ones(dtype):
    wide = torch.arange(-40, 40, dtype=torch.int32).to(dtype.torch)
    found = settled(wide, dtype)
    least, most = dtype.limits
    assert least == found.min() and found.max() == most
    assert bool(((found.int() - wide.int()) % 16 == 0).all())


def test_large_uint64_fit_operators_that_compute_modulo_2_64_only():
    large, small = tensor(np.array([1 << 63], np.uint64)), tensor(np.array([7], np.uint64))
    add, less = REGISTRY.get("Add")(), REGISTRY.get("Less")()
    dtypes = [DType.UINT64] * 2
    assert not unfit(add, [large, small], dtypes)
    assert unfit(less, [large, small], dtypes)
    assert not unfit(less, [small, small], dtypes)


@pytest.mark.parametrize("dtype", FLOAT8S)
def test_8_bit_floats_are_rounded_to_nearest_and_saturate(dtype):
    most = dtype.limits[1]
    x = np.linspace(-0.99 * most, 0.99 * most, 1001).astype(np.float32)
    assert np.array_equal(rounded(torch.from_numpy(x), dtype).numpy(), x.astype(dtype.numpy))
    far = rounded(torch.tensor([1e9, -1e9, torch.inf]), dtype)
    assert far.tolist() == [most, -most, most]


def test_bfloat16_is_bit_exact():
    x = RNG.standard_normal(1000).astype(ml_dtypes.bfloat16)
    assert torch.equal(tensor(x), torch.from_numpy(x.astype(np.float32)).bfloat16())


def test_an_operator_of_onnx_names_its_modes():
    registry = OpRegistry.load()
    chosen = list(registry.select(["Resize", "Relu"]))
    assert "Relu" in chosen and {"ResizeNearest", "ResizeLinear", "ResizeCubic"} < {*chosen}
    with pytest.raises(KeyError, match="unknown operator 'Re'"):
        registry.select(["Re"])
