"""A bug of one operator is a test of OpTester, with all brackets closed."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from nnfuzz.bugs.bug import BugError
from nnfuzz.bugs.node_test import Expected
from nnfuzz.bugs.op_test import is_balanced, op_test
from nnfuzz.bugs.scripts import op_test as asked

HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'
CLIP = 'nnfuzz (float[2] x) => (float[2] y) <float high = {0}> { y = Clip (x, "", high) }'


def written(text, inputs, outputs):
    return op_test(Expected(parser.parse_model(HEAD + text), inputs, outputs), "Name")


def test_inputs_weights_and_outputs_are_literals():
    x = np.array([np.nan, -np.inf], "float32")
    assert written(CLIP, {"x": x}, {"y": np.array([1, 0.5], "float32")}) == (
        "TEST(NnfuzzTest, Name) {\n"
        '  OpTester test("Clip", 18, kOnnxDomain);\n'
        '  test.AddInput<float>("x", {2}, {std::numeric_limits<float>::quiet_NaN(), '
        "-std::numeric_limits<float>::infinity()});\n"
        "  test.AddOptionalInputEdge<float>();\n"
        '  test.AddInput<float>("high", {}, {0.0f}, true);\n'
        '  test.AddOutput<float>("y", {2}, {1.0f, 0.5f});\n'
        "  test.Run();\n"
        "}\n"
    )


def test_attributes_have_their_types():
    text = (
        'n (float16[1] x) => (float16[1] y) { y = Op <a = 1, b = [2, 3], c = "d", e = 0.5> (x, x) }'
    )
    half = np.ones(1, "float16")
    found = written(text, {"x": half}, {"y": half})
    for line in (
        'test.AddAttribute("a", static_cast<int64_t>(1));',
        'test.AddAttribute("b", std::vector<int64_t>{2, 3});',
        'test.AddAttribute("c", std::string("d"));',
        'test.AddAttribute("e", 0.5f);',
        'test.AddInput<MLFloat16>("x_1", {1}, {MLFloat16(1.0f)});',
    ):
        assert f"  {line}\n" in found
    assert is_balanced(found)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("n (float x) => (float y) { z = Neg (x)\n y = Neg (z) }", "more than one node"),
        ("n (float x) => (float y) { y = my.own.Op (x) }", "no domain 'my.own'"),
        (
            "n (float x) => (float y) { y = If <b = g () => (float z) { z = Op () }> (x) }",
            "b is no",
        ),
    ],
)
def test_what_op_tester_cannot_have_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        written(text, {"x": np.float32(0)}, {"y": np.float32(0)})


def test_brackets_are_counted_outside_of_texts_and_comments():
    assert is_balanced('f({"}"}); // )\n') and is_balanced(r'"\"{"')
    assert not is_balanced("f({)}") and not is_balanced("{") and not is_balanced("}")


def test_a_script_is_asked_in_a_process_of_its_own(tmp_path):
    script = tmp_path / "repro.py"
    with pytest.raises(BugError, match="has no script"):
        asked(script, "Name")
    model = f'import sys\nMODEL = """{HEAD}{CLIP}"""\n'
    script.write_text(
        f"import numpy as np\n{model}INPUTS = {{'x': np.array([-1, 2], 'float32')}}\n"
        "def run():\n    pass\nsys.exit(1)\n"
    )
    assert '"y", {2}, {-1.0f, 0.0f}' in asked(script, "Name")
    script.write_text("import sys\ndef run():\n    pass\nsys.exit(1)\n")
    with pytest.raises(BugError, match="it has no model"):
        asked(script, "Name")
