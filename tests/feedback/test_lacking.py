"""What a compiler refuses, asked with many operators in one model."""

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.feedback.lacking import answers, beside
from nnfuzz.feedback.support import generalised
from nnfuzz.ir.support_key import SupportKey

TOY = Target("toy")
OPERATORS = ("Abs", "Neg", "Exp", "Sin", "Cos", "Tan", "Relu", "Sqrt", "Ceil", "Floor", "Erf")
KEYS = [SupportKey("direct@20", o, f"({d})->{d}") for o in OPERATORS for d in ("double", "float32")]


def make(key, number):
    """A model whose size tells the instance."""
    dtype = "float" if "float32" in key.dtypes else "double"
    text = f"<ir_version: 8, opset_import: ['' : 20]> one ({dtype}[{number + 1}] x) => "
    text += f"({dtype}[{number + 1}] y) {{ y = {key.operator} (x) }}"
    model = parser.parse_model(text.replace("'", '"'))
    return model.SerializeToString(), {"x": np.ones(number + 1, dtype.replace("float", "f4"))}


class Compiler:
    """Refuses what `refuses` returns words for, by operator, dtype and size of the input."""

    def __init__(self, refuses):
        self.refuses, self.runs = refuses, 0

    def __call__(self, model, inputs):
        self.runs += 1
        graph = onnx.load_model_from_string(model).graph
        types = {i.name: i.type.tensor_type for i in graph.input}
        assert types.keys() == inputs.keys()
        for node in graph.node:
            type_ = types[node.input[0]]
            dtype = "float32" if type_.elem_type == 1 else "double"
            if words := self.refuses(node.op_type, dtype, type_.shape.dim[0].dim_value):
                return Outcome(OutcomeKind.UNSUPPORTED, Stage.COMPILE, TOY, message=words)
        return Outcome(OutcomeKind.OK, Stage.EXECUTE, TOY)


def asked(refuses, most=99):
    compiler = Compiler(refuses)
    return {*map(str, generalised(answers(KEYS, make, compiler, most)))}, compiler.runs


def test_a_compiler_that_takes_all_runs_one_model_for_each_dtype():
    assert asked(lambda *_: "") == (set(), 2)


@pytest.mark.parametrize("words", ["no {} here", "this does not work"])
def test_what_is_refused_is_found_whatever_the_words(words):
    found, runs = asked(lambda op, *_: words.format(op) if op in ("Sin", "Erf") else "")
    assert found == {"Sin", "Erf"} and runs < 40


def test_words_that_refused_two_operators_are_enough_unless_one_of_theirs_runs():
    def refuses(op, dtype, size):
        return f"no kernel of {op}({dtype}) at node 'y_3'" if dtype == "double" else ""

    found, runs = asked(refuses)
    assert found == {f"{o}(double)->double" for o in OPERATORS} and runs < 35
    found, more = asked(lambda op, *rest: refuses(op, *rest) if (op, rest[1]) != ("Abs", 2) else "")
    assert found == {f"{o}(double)->double" for o in OPERATORS[1:]} and more > runs


def test_one_dtype_is_not_the_operator():
    found, _ = asked(lambda op, dtype, _: "no" if (op, dtype) == ("Cos", "double") else "")
    assert found == {"Cos(double)->double"}


def test_what_runs_in_another_instance_is_taken():
    assert asked(lambda op, _, size: "too small" if (op, size) == ("Tan", 1) else "")[0] == set()


def test_float32_comes_first_where_few_are_asked_for():
    assert asked(lambda op, dtype, _: "no" if dtype == "double" else "", len(OPERATORS))[0] == set()


def test_nothing_is_claimed_once_time_is_up():
    assert answers(KEYS, make, lambda *_: None) == {}


def test_models_beside_each_other_compute_what_each_does():
    body = "(float[2] y) { one = Constant <value_floats = [1.0, 2.0]> () y = Add (x, one) }"
    text = '<ir_version: 8, opset_import: ["" : 18]> whole (bool c, float[2] x) => (float[2] y) '
    text += f"{{ y = If (c) <then_branch = t () => {body}, else_branch = e () => {body}> }}"
    chosen = parser.parse_model(text).SerializeToString()
    x = np.array([3, 4], np.float32)
    model, inputs = beside([(chosen, {"c": np.array(True), "x": x}), make(KEYS[3], 1)] * 2)
    onnx.checker.check_model(onnx.load_model_from_string(model), full_check=True)
    results = ReferenceEvaluator(onnx.load_model_from_string(model)).run(None, inputs)
    assert [r.tolist() for r in results] == [[4, 6], [-1, -1]] * 2
