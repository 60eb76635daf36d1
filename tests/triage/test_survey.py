"""Asking compilers for their habits, with compilers made of NumPy."""

from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from nnfuzz.backend.contract import Backend, BackendOptions, option
from nnfuzz.backend.numeric import SATURATES, TF32, Deviation
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.registry import BackendSpec
from nnfuzz.backend.runner import AdapterFault
from nnfuzz.backend.target import Target
from nnfuzz.triage.survey import (
    learn_habits,
    reading_onnx,
    refused_interface,
    survey,
    usual_seconds,
)

OPERATORS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum}
OPERATORS |= {"Min": np.minimum}
OPERATORS |= {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}


def compiler(before=lambda a, op: a, after=lambda a, op, wide: a):
    """Computes the model of a survey; before and after change operands and results."""

    def run(model, inputs):
        (node,) = onnx.load_model_from_string(model).graph.node
        op = node.op_type
        x, y = (before(inputs[name], op) for name in node.input)
        with np.errstate(over="ignore"):
            found = x @ y if op == "MatMul" else OPERATORS[op](x, y)
        wide = None
        if x.dtype.kind in "iu" and op == "Add":
            wide = x.astype(object) + y.astype(object)
        return {"y": after(found, op, wide)}

    return run


def through(old, new, back=True):
    def before(a, op):
        if a.dtype != old:
            return a
        with np.errstate(over="ignore"):
            return a.astype(new).astype(old) if back else a.astype(new)

    return before


def saturated(found, op, wide):
    if wide is None or found.dtype != np.int8:
        return found
    return np.clip(wide, -128, 127).astype(np.int8)


def test_a_compiler_without_habits():
    assert survey(compiler()) == ()
    assert survey(lambda model, inputs: None) == ()


def test_the_result_may_be_of_the_narrower_type():
    habits = survey(compiler(through("float64", np.float32, back=False)))
    assert habits == (Deviation("float64", "float32"),)


@pytest.mark.parametrize("to", ["uint8", "int32", "float32"])
def test_truth_values_may_come_out_as_numbers(to):
    def numbers(found, op, wide):
        return found.astype(to) if found.dtype == bool else found

    assert survey(compiler(after=numbers)) == (Deviation("bool", to),)


def test_a_compiler_without_inputs_of_a_type_is_asked_by_a_cast():
    def run(model, inputs):
        (node,) = onnx.load_model_from_string(model).graph.node
        return {"y": inputs["x"]} if node.op_type == "Cast" else None

    found = survey(run)
    assert Deviation("float64", "float32") in found and Deviation("int64", "int32") in found
    assert Deviation("bool", "float32") in found and len({h.dtype for h in found}) == len(found)


def test_saturation_and_short_factors():
    assert survey(compiler(after=saturated)) == (Deviation("int8", SATURATES),)

    def short(a, op):
        if op != "MatMul" or a.dtype != np.float32:
            return a
        return (a.view(np.uint32) & ~np.uint32((1 << 13) - 1)).view(np.float32)

    assert survey(compiler(short)) == (Deviation("float32", TF32),)


def test_unsigned_integers_may_end_where_signed_ones_do():
    def clipped(a, op):
        return np.minimum(a, 2**63 - 1) if a.dtype == np.uint64 else a

    assert survey(compiler(clipped)) == (Deviation("uint64", "int64"),)


def test_one_operator_that_loses_digits_is_no_habit():
    def only_max(a, op):
        return a.astype(np.float32).astype(a.dtype) if op == "Max" else a

    assert survey(compiler(only_max)) == ()


class Runner:
    """Answers with the seconds that it was made with, by level: of the first model, and later."""

    def __init__(self, **seconds):
        self.seconds, self.models = seconds, []

    elementary, hung = 0.0, 0

    def run(self, model, inputs, levels, seconds=60.0):
        first, self.models = not self.models, [*self.models, model]
        self.limit = seconds
        return [self.outcome(level, self.seconds[level][0 if first else 1]) for level in levels]

    def outcome(self, level, seconds):
        kind = OutcomeKind.OK if seconds < 60 else OutcomeKind.TIMEOUT
        target = Target("slow", pipeline=level)
        return Outcome(kind, Stage.EXECUTE, target, seconds={"compile": seconds})


def test_levels_show_what_to_expect_once_they_are_warm():
    runner = Runner(O0=(1.0, 0.1), O3=(20.0, 2.0))
    assert usual_seconds(runner, ["O0", "O3"]) == {"O0": 0.1, "O3": 2.0}
    assert len(set(runner.models)) == 2  # nothing that a cache holds


def test_a_level_that_hangs_is_not_waited_for_long():
    runner = Runner(O0=(1.0, 0.1), O3=(60.0, 60.0))
    assert usual_seconds(runner, ["O0", "O3"], most=60.0) == {"O0": 0.1}
    assert runner.limit == 20.0 and runner.hung == 2
    runner = Runner(O0=(60.0, 0.1))
    assert usual_seconds(runner, ["O0"]) == {"O0": 0.1} and runner.limit == 5.0


def test_a_slow_compiler_is_not_asked_for_longer_than_told(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr("nnfuzz.triage.survey.time.monotonic", lambda: next(clock))
    runner = Runner(O0=(0.1, 0.1))
    runner.backend = SimpleNamespace(default_levels=lambda: ("O0",), narrows={})
    runner.reads = "onnx"
    assert learn_habits(runner, seconds=3.0) == ()
    assert len(runner.models) == 3


def losing(kept):
    """A runner of which all outcomes but `kept` have lost their outputs."""

    class Losing(Runner):
        def run(self, model, inputs, levels, seconds):
            self.models.append(model)
            if len(self.models) <= kept:
                ended = {"kind": OutcomeKind.OK, "outputs": {"y": inputs["x"]}}
            else:
                lost = "nnfuzz.backend.contract.OutputError", "output 'y' is missing"
                ended = dict(zip(("error_type", "message"), lost), kind=OutcomeKind.EXCEPTION)
            return [Outcome(stage=Stage.EXECUTE, target=Target("x"), **ended)]

    runner = Losing(O0=(0.1, 0.1))
    runner.backend = SimpleNamespace(default_levels=lambda: ("O0",), narrows={})
    runner.reads, runner.spec = "onnx", "mine"
    return runner


def test_an_adapter_that_loses_all_outputs_is_at_fault():
    with pytest.raises(AdapterFault, match=r"none of \d+ elementary models has its outputs: out"):
        learn_habits(losing(kept=0))
    assert learn_habits(losing(kept=1)) == ()


@pytest.mark.parametrize("has_form", [True, False])
def test_a_compiler_that_reads_onnx_as_well_is_asked_by_that(monkeypatch, has_form):
    class Both(Backend):
        name = "both"
        versions = load = build = None
        reads = "onnx" if has_form else "exported"

        @dataclass(frozen=True, kw_only=True)
        class Options(BackendOptions):
            form: str = option("onnx" if has_form else "exported", "what is imported")

    made = []

    def other(spec, registry):
        made.append(spec.options)
        return nullcontext(runner)

    monkeypatch.setattr("nnfuzz.triage.survey.BackendRunner", other)
    runner = Runner(O0=(0.1, 0.1))
    runner.backend, runner.reads, runner.registry = Both, "exported", None
    runner.spec = BackendSpec("both", {"form": "exported"})
    with reading_onnx(runner) as asked:
        assert asked is runner
    assert made == ([{}] if has_form else [])


def test_comparisons_that_pass_over_nan_are_a_habit():
    ignoring = {"Max": np.fmax, "Min": np.fmin}
    plain = compiler()

    def run(model, inputs):
        op = onnx.load_model_from_string(model).graph.node[0].op_type
        return {"y": ignoring[op](*inputs.values())} if op in ignoring else plain(model, inputs)

    found = survey(run)
    assert [str(h) for h in found] == [
        f"{d} ignores NaN" for d in ("float64", "float32", "float16")
    ]
    assert {h.decision for h in found} == {"ignores NaN"}
    assert [Deviation.parse(str(h)) for h in found] == list(found)


def test_nan_that_one_comparison_loses_is_no_habit():
    plain = compiler()

    def run(model, inputs):
        op = onnx.load_model_from_string(model).graph.node[0].op_type
        return {"y": np.fmax(*inputs.values())} if op == "Max" else plain(model, inputs)

    assert survey(run) == ()


class Interfaces:
    """A runner of a compiler that refuses models by their inputs, outputs and operators."""

    backend = SimpleNamespace(default_levels=lambda: ("O0",))

    def __init__(self, refuses):
        self.refuses, self.asked = refuses, 0

    def run(self, model, inputs, levels):
        self.asked += 1
        graph = onnx.load_model_from_string(model).graph
        onnx.checker.check_model(onnx.load_model_from_string(model), full_check=True)
        kinds = lambda values: {  # noqa: E731
            "rank 0" if not value.type.tensor_type.shape.dim else value.type.tensor_type.elem_type
            for value in values
        }
        refused = self.refuses(kinds(graph.input), kinds(graph.output), graph.node)
        kind = OutcomeKind.UNSUPPORTED if refused else OutcomeKind.OK
        return [Outcome(kind, Stage.IMPORT, Target("toy", pipeline="O0"))]


def interface(refuses):
    runner = Interfaces(refuses)
    return set(refused_interface(runner, 21)), runner.asked


def test_a_compiler_that_takes_every_kind_is_asked_once():
    assert interface(lambda inputs, outputs, nodes: False) == (set(), 1)


def test_kinds_are_refused_at_an_end_or_everywhere():
    int64, half = TensorProto.INT64, TensorProto.FLOAT16

    def refuses(inputs, outputs, nodes):
        casts = {a.i for node in nodes if node.op_type == "Cast" for a in node.attribute}
        return bool({int64, "rank 0"} & inputs or half in casts | inputs | outputs)

    refused, asked = interface(refuses)
    assert refused == {"input int64", "input rank 0", "float16", "input float16", "output float16"}
    assert asked < 40


def test_a_compiler_that_lacks_conversions_takes_the_kind():
    def refuses(inputs, outputs, nodes):
        casts = {a.i for node in nodes if node.op_type == "Cast" for a in node.attribute}
        return TensorProto.DOUBLE in casts

    assert interface(refuses)[0] == set()


@pytest.mark.parametrize(("dtype", "to"), [("float16", "float32"), ("int16", "int32")])
def test_a_type_may_come_out_as_a_wider_one(dtype, to):
    assert survey(compiler(through(dtype, to, back=False))) == (Deviation(dtype, to),)


def test_the_type_of_a_result_decides_between_habits():
    habits = survey(compiler(through("int64", np.int32, back=False)))
    assert habits == (Deviation("int64", "int32"),)


@pytest.mark.parametrize("dtypes", [("float32",), ("float64", "float32")])
def test_subnormal_numbers_taken_for_0_are_a_habit(dtypes):
    plain = compiler()

    def flushed(x):
        return np.where(np.abs(x) < np.finfo(x.dtype).tiny, 0, x) if x.dtype.name in dtypes else x

    def run(model, inputs):
        outputs = plain(model, {name: flushed(x) for name, x in inputs.items()})
        return outputs and {name: flushed(x) for name, x in outputs.items()}

    found = survey(run)
    assert [str(h) for h in found] == [f"{d} flushes subnormal numbers to 0" for d in dtypes]
    assert [Deviation.parse(str(h)) for h in found] == list(found)
