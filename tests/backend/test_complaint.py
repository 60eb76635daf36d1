"""What compilers of which nothing is known complain of."""

import pytest

from nnfuzz.backend.complaint import CompilerError, Complaint, ComplaintKind, read_complaint
from nnfuzz.backend.stage import Stage
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
