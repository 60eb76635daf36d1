"""Messages of compilers: normalised, and read as complaints."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.backend.backtrace import MAX_CHARACTERS, normalise
from nnfuzz.backend.causes import innermost, refusing_lines
from nnfuzz.backend.complaint import (
    CompilerError,
    Complaint,
    ComplaintKind,
    Stage,
    read_complaint,
    reads_as_internal,
)
from nnfuzz.backend.numeric import agree, close
from nnfuzz.base.reading import read as typed
from nnfuzz.base.writing import as_json

CHAIN = """Exception from src/core.cpp:117:
Exception from src/rewrite.cpp:298:
[ConvertRNN] END: node: op::RNN RNN_67 (op::Parameter p[0]:f32[35,6], op::Constant c[0]:i64[35]) -> (f32[35]) HAS THROWN: Unknown activation function: elu
"""  # noqa: E501
LIST = """Exception from src/core.cpp:105:
Check 'false' failed at src/report.cpp:151:
Not all was converted. Operations in detail:
-- Quantize-26 with a message:
Check '(type.is_static())' failed at src/quantize.cpp:95:
While validating node '<Node(Quantize): q>':
"x" input data type must be static.

-- Scan-26 with a message:
While validating node '<Node(Scan): s>': Check 'n >= 0' failed at src/scan.cpp:189:
Scan_23 outputs can't be negative: body outputs (2) is less than values (3)

Summary:
-- Conversion is failed for: Quantize-26, Scan-26
"""


def read(message, stage=Stage.COMPILE, **more):
    return read_complaint(CompilerError(stage, "RuntimeError", message, **more))


def test_the_innermost_cause_of_a_chain_stands_last_and_behind_what_quotes_the_model():
    found = read(CHAIN)
    assert (found.subject, found.location) == ("Unknown activation function: elu", "rewrite.cpp")
    assert found.others == ()


def test_elements_of_an_array_are_no_statement():
    dumps = ("[0, -1], shape=[2]", "[[[0]],\n\n [[-1]]], shape=[2, 1, 1]")
    texts = (f"Caused by:\n  7 is out of ({d}, strides=[1], layout=C (0x5))" for d in dumps)
    errors = (CompilerError(Stage.EXECUTE, "E", text, "") for text in texts)
    assert len({normalise(read_complaint(error).subject) for error in errors}) == 1


def test_what_protobuf_prints_is_no_statement():
    assert read('Cannot parse: \nname: "perm"\ntype: INTS\n\n.').subject == "Cannot parse:"


def test_a_list_is_several_complaints_each_with_its_place():
    found = read(LIST)
    assert (found.subject, found.location) == (
        '"x" input data type must be static.',
        "quantize.cpp",
    )
    ((subject, location),) = found.others
    assert subject.startswith("Scan_23 outputs can't be negative") and location == "scan.cpp"
    assert typed(Complaint, as_json(found)) == found


@pytest.mark.parametrize(
    ("message", "stage", "kind"),
    [
        ("no kernel for Foo", Stage.COMPILE, ComplaintKind.UNSUPPORTED),
        ("Foo is not supported", Stage.IMPORT, ComplaintKind.UNSUPPORTED),
        (
            "com.lib:Foo(-1) is not a registered function/op",
            Stage.IMPORT,
            ComplaintKind.UNSUPPORTED,
        ),
        (
            "Node(n): input size 6 not in range [min=2, max=5]",
            Stage.IMPORT,
            ComplaintKind.UNSUPPORTED,
        ),
        ("Foo is not supported", Stage.EXECUTE, ComplaintKind.UNSUPPORTED),
        ("operands of different types", Stage.COMPILE, ComplaintKind.DTYPE),
        ("the data type is wrong", Stage.IMPORT, ComplaintKind.DTYPE),
        ("axis 3 is out of bounds", Stage.IMPORT, ComplaintKind.SHAPE),
        ("something broke", Stage.COMPILE, ComplaintKind.ERROR),
    ],
)
def test_kinds_are_told_by_ordinary_words(message, stage, kind):
    assert read(message, stage).kind is kind


def test_exceptions_for_what_is_not_implemented_are_no_failures():
    assert read("x", bases=("Odd", "NotImplementedError")).kind is ComplaintKind.UNSUPPORTED


def test_of_a_process_that_died_the_last_words_count():
    error = CompilerError(Stage.COMPILE, captured="loading\nfoo.cc:3: Assertion `x' failed.\nbye")
    assert read_complaint(error).subject == "foo.cc:3: Assertion `x' failed."
    assert read_complaint(CompilerError(Stage.COMPILE)).subject == ""


def test_a_message_that_is_nothing_but_context_is_kept():
    assert read("While converting:").subject == "While converting:"
    assert read("").subject == ""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("STFT expects a constant window", ComplaintKind.UNSUPPORTED),
        ("Can't convert Einsum for no support Equation:z,it", ComplaintKind.UNSUPPORTED),
        ("Pad expects a constant value of the type of its input", ComplaintKind.ERROR),
        ("the loop took a constant value", ComplaintKind.ERROR),
    ],
)
def test_what_must_be_constant_and_what_has_no_support_is_refused(text, kind):
    assert read(text, Stage.IMPORT).kind is kind


@pytest.mark.parametrize(
    "text", ["Unsupported operators:\nFoo: 3", "Cubic mode only supports:\n* 2-D"]
)
def test_a_line_that_refuses_may_announce_a_list(text):
    assert read(text).kind is ComplaintKind.UNSUPPORTED


# What differs from model to model goes; what names the failure stays.


SAME = [
    ("Node (Conv_12) Op (Conv) failed", "Node (n3) Op (Conv) failed"),
    ("input shape {2,3}, want {}", "input shape {7,1,4}, want {5}"),
    ("shapes [1..4,?,3] and [2] at axis index.1", "shapes [?] and [5,6.] at axis index.3"),
    ("at 0xdeadbeef in /tmp/a/foo.cc:12", "at 0x1 in /build/b/c/foo.cc:99"),
    ("dim 3 is 1.5e-3", "dim 12 is -7"),
    ("cannot read 'v12'", "cannot read 'onnx::Cast_3'"),
    ('value "/Relu_output_0" is missing', 'value "p3" is missing'),
    ("f<std::vector<int>>(x)", "f<float>(x)"),
    ("call: R.matmul(gv21, alloc19, out_dtype=None)", "call: R.matmul(x, md[0]) # omitted"),
    ("\x1b[1;31m2026-11-21 11:12:31.57 bad\x1b[m", "bad"),
    ("T_add_3 and var12", "T_add_15 and var4"),
    ("expected 1,U8 got 1,1,U8", "expected 4,1,1,U8 got 7,1,1,1,U8"),
    ("cannot join 1, 2 and 3, 4, 5", "cannot join 8, 8, 8 and 3, 4"),
]
DIFFERENT = [
    ("cast to float16", "cast to float32"),
    ("cast to F16", "cast to F32"),
    ("cast to 1,U8", "cast to 1,I8"),
    ("Type 'tensor(int8)' is invalid", "Type 'tensor(int64)' is invalid"),
    ("no kernel for 'Conv'", "no kernel for 'Relu'"),
    ("unknown intrinsic 'tirx.acos'", "unknown intrinsic 'tirx.atan'"),
    ('In ir.Op(span=None, name="relax.add", n=(1, 2))', 'In ir.Op(span=None, name="relax.mul")'),
    ("relax.nn.conv2d fails", "relax.nn.conv1d fails"),
]


@pytest.mark.parametrize("one, other", SAME)
def test_alike(one, other):
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize("one, other", DIFFERENT)
def test_told_apart(one, other):
    assert normalise(one) != normalise(other)


def test_names_of_the_graph_go():
    names = ["v1", "v12", "weird.name"]
    assert normalise("v12 after weird.name", names) == normalise("v1 after v12", names)
    assert normalise("overview", ["view"]) == "overview"


def test_prose_stays():
    text = "malloc(): invalid size (unsorted)"
    assert normalise(text) == text


@given(st.text(alphabet="ab1 .,:'\"()[]{}<>/#=x_\n", max_size=60))
def test_idempotent_and_bounded(text):
    once = normalise(text)
    assert len(once) <= MAX_CHARACTERS and "\n" not in once
    assert normalise(normalise(once)) == normalise(once)


def test_long_input_is_quick():
    assert len(normalise("f(a=" * 20_000)) <= MAX_CHARACTERS


def test_names_that_a_compiler_derives_from_those_of_the_model_keep_what_it_put_in_front():
    told = normalise("output arg (InsertedCast_v10/duplicated) of (Cast_p4_1)", ("v10", "p4"))
    assert told == normalise("output arg (InsertedCast_v3) of (Cast_p12)", ("v3", "p12"))
    assert "InsertedCast_<name>" in told


def test_a_compilers_own_name_reads_alike_whatever_the_values_are_called():
    said = "in _impl_v13: bad"
    assert normalise(said, ("v13", "p0")) == normalise(said, ("v1", "p0"))


def test_what_a_compiler_has_in_a_namespace_of_its_own_is_no_name_of_the_model():
    said = "no dilation for Padding::SAME_UPPER or Padding::SAME_LOWER"
    assert normalise(said, ("v0", "SAME_LOWER")) == normalise(said, ("v0", "SAME_UPPER")) == said


def test_a_name_that_is_a_word_is_one_only_where_it_is_given_as_a_value():
    """Attributes hold words such as "reflect", and so do sentences about anything else."""
    told = "3 is beyond a tensor of mode 'beyond', mode=beyond"
    assert normalise(told, ["beyond"]) == "N is beyond a tensor of mode <name>, mode=<name>"


# Lines in which a compiler states that it lacks something.


@pytest.mark.parametrize(
    "line",
    [
        "UNSUPPORTED_NODE: Loop",
        "bf16 is not yet supported on this device",
        "Only rank 4 is supported",
        "no kernel for float8",
        "pads must be a constant",
        "unknown type: 'float8_e4m3fn'",
        "Limitation: accepting only a constant as the input B",
        "the kernel accepts only 4 bits",
    ],
)
def test_what_is_missing_is_a_refusal(line):
    assert refusing_lines(["ok", line]) == [line]


@pytest.mark.parametrize(
    "line",
    [
        "int64 is not supported, falling back to int32",
        "unsupported attribute will be ignored",
        "index out of range",
        "assertion failed: rank == 4",
    ],
)
def test_what_is_done_instead_and_accidents_are_none(line):
    assert refusing_lines([line]) == []


# Slips of an adapter.


def test_the_innermost_frame_is_that_of_the_last_error():
    trace = (
        error("KeyError").traceback + "\nDuring handling:\n\n" + error("X", file=NUMPY).traceback
    )
    assert innermost(trace)[0] == NUMPY
    assert innermost("no traceback") == ("", "")


# Which errors a compiler has meant as its answer, by their class and place.


OWN = "/site-packages/toycompiler/importer.py"
NUMPY = "/site-packages/numpy/_core/shape.py"


def error(kind, message="", file=OWN, line="shape = attrs['perm']"):
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/nnfuzz/backend.py", line 1, in load\n    return toycompiler.parse(model)\n'
        f'  File "{file}", line 7, in convert\n    {line}\n{kind}: {message}\n'
    )
    return CompilerError(Stage.IMPORT, kind, message, trace)


@pytest.mark.parametrize(
    ("told", "internal"),
    [
        (error("KeyError", "'perm'"), True),
        (error("KeyError", "'no such operator'", line="raise KeyError(name)"), False),
        (error("TypeError", "'NoneType' object is not iterable"), True),
        (error("TypeError", "wrong", file=NUMPY, line="raise TypeError(text)"), True),
        (error("AssertionError", "two inputs", line="raise AssertionError(text)"), True),
        (error("RecursionError", "maximum recursion depth exceeded"), True),
        (error("ValueError", "axis 7 is out of range", line="raise ValueError(text)"), False),
        (error("ValueError", "axis 7 is out of range", line="native.build(graph)"), False),
        (error("ValueError", "not enough values to unpack (expected 3, got 2)"), True),
        (
            error("ValueError", "cannot reshape array of size 3", file=NUMPY, line="return f()"),
            True,
        ),
        (error("toycompiler.errors.InternalError", "x", line="raise error"), True),
        (error("toycompiler.errors.ImportError", "bad axis", line="raise error"), False),
        (error("onnx.checker.ValidationError", "bad axis", file="/onnx/checker.py"), False),
        (error("google.protobuf.message.DecodeError", "truncated", file="/onnx/x.py"), False),
        (error("TypeError", "UNDEFINED", file="/onnx/reader.py", line="raise TypeError(x)"), False),
        (error("KeyError", "99", file="/onnx/reader.py", line="return TYPES[dtype]"), True),
        (error("RuntimeError", "the axis is out of range", line="native.build(graph)"), False),
        (error("RuntimeError", "vector::_M_range_check: __n (which is 3)"), True),
        (error("RuntimeError", "Converting input model\nstoull"), True),
        (error("RuntimeError", "this should never happen"), True),
        (error("TypeError", "wrong dtype", file="/src/relax/op.cc", line=""), False),
    ],
    ids=lambda value: value.error_type if isinstance(value, CompilerError) else str(value),
)
def test_class_and_place_tell(told, internal):
    assert reads_as_internal(told, {"toycompiler"}) is internal


# The cheap check: a few ULP, bit-exact for discrete outputs, no torch.


INF, NAN = np.inf, np.nan


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_a_few_ulp_are_close_and_more_are_not(dtype):
    x = np.array([1.5, -3.25, 100], dtype)
    ulp = np.spacing(np.abs(x))
    assert close(x, x + 2 * ulp)
    assert not close(x, x + np.array([0, 0, 20], dtype) * ulp)


@pytest.mark.parametrize(
    ("a", "b", "agrees"),
    [
        ([NAN, 1], [NAN, 1], True),
        ([NAN, 1], [0, 1], False),
        ([1, 1], [NAN, 1], False),
        ([-INF, 1], [-INF, 1], True),
        ([INF, 1], [-INF, 1], False),
        ([3e38, 1], [INF, 1], False),
        ([INF, 1], [3e38, 1], False),
        ([0.0, 1], [-0.0, 1], True),
    ],
)
def test_non_finite_values_agree_with_themselves_only(a, b, agrees):
    assert close(np.float32(a), np.float32([b[0], np.nextafter(np.float32(b[1]), 2)])) is agrees


def test_discrete_outputs_are_bit_exact():
    assert close(np.array([1, 2]), np.array([1, 2]))
    assert not close(np.array([1, 2]), np.array([1, 3]))
    assert not close(np.array([True]), np.array([False]))


def test_shape_and_dtype_count():
    x = np.zeros((2, 3), np.float32)
    assert not close(x, x.reshape(3, 2))
    assert not close(x, x.astype(np.float64))


def test_all_outputs_have_to_agree():
    zero, one = np.zeros(2, np.float32), np.ones(2, np.float32)
    assert agree({"a": zero, "b": one}, {"b": one, "a": zero, "c": one})
    assert not agree({"a": zero, "b": one}, {"a": zero})
    assert not agree({"a": zero, "b": one}, {"a": zero, "b": zero})
    assert not agree({"a": zero}, {"a": -zero})  # for some inputs


def test_torch_is_not_imported():
    code = "import nnfuzz.backend.numeric, nnfuzz.compare.flip, nnfuzz.compare.mismatch, sys; "
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
