"""What is read in the messages of many systems, against what a person reads in them."""

from collections import Counter

import pytest

from nnfuzz.backend.backtrace import normalise
from nnfuzz.backend.causes import slip
from nnfuzz.backend.complaint import (
    CompilerError,
    Complaint,
    ComplaintKind,
    Stage,
    read_complaint,
    stated_cause,
)
from tests.triage.spoken import messages, read

MESSAGES = messages()
MISREAD = {"migraphx-variable-ends"}
"""A refusal that is taken for a failure: it says "cannot handle", as compilers do of their bugs."""


def test_the_corpus_is_what_was_asked_for():
    assert len({said.id for said in MESSAGES}) == len(MESSAGES) >= 60
    assert len({said.system for said in MESSAGES}) >= 20
    kinds = Counter(said.kind for said in MESSAGES)
    assert kinds["refusal"] >= 20 and set(kinds) == {"refusal", "failure", "crash"}
    assert sum(said.friend for said in MESSAGES) >= 15
    assert sum(bool(said.place) for said in MESSAGES) >= 15
    assert all(said.thread.startswith("https://") for said in MESSAGES)


@pytest.mark.parametrize("said", MESSAGES, ids=lambda said: said.id)
def test_a_person_reads_the_same(said):
    cause, refuses, place = read(said).right(said)
    assert cause and place
    assert refuses is (said.id not in MISREAD)


def test_false_friends_are_no_refusals():
    friends = [said for said in MESSAGES if said.friend]
    assert not any(read(said).refuses for said in friends)


def test_no_frame_is_a_statement():
    """Whatever a runtime's backtrace has is in no subject."""
    for said in MESSAGES:
        assert "libc_start" not in read(said).cause, said.id
        assert "rust_begin_unwind" not in read(said).cause, said.id


def refuses(message, error_type="RuntimeError", stage=Stage.COMPILE, **more):
    told = read_complaint(CompilerError(stage, error_type, message, **more))
    return told.kind is ComplaintKind.UNSUPPORTED


@pytest.mark.parametrize(
    "message",
    [
        "the kernel only supports two axes",
        "int8 is not supported for Foo",
        "we don't support type bool",
        "Foo doesn't yet support strides",
        "can only be float: double is not yet implemented",
        "unrecognized attribute: dilations",
        "E1: NOT_YET_SUPPORTED Foo",
        "UnsupportedLayer(Foo)",
        "there is no converter for Foo",
        "layer Foo is not registered",
        "scale must be a const",
        "the parameters are not constant",
        "Foo requires constant input 'axes'",
        "Unknown DatumType Bfloat16",
        "unknown type 'float8e4m3fn'",
        "int4 is not registered or supported",
        "limitation: B is an initializer",
        "shapes that are computed are not handled by this pass yet",
        "does not know how to lower Foo",
        "operator Foo is not enabled in this build",
        "only float32 supported",
        "internal executor error: run 7: kernel execution failed: Foo: unsupported dtype Float64",
        "'ndarray' object cannot be converted to 'PyArray<T, D>'",
        "run(): incompatible function arguments. The following argument types are taken:",
    ],
)
@pytest.mark.parametrize("stage", [Stage.TRANSFORM, Stage.IMPORT, Stage.COMPILE, Stage.EXECUTE])
def test_sentences_of_refusal_at_any_stage_before_values_come_out(message, stage):
    assert refuses(message, stage=stage)
    assert not refuses(f"{message}\nInternal error: assertion `x` failed", stage=stage)


@pytest.mark.parametrize(
    ("message", "error_type"),
    [
        ("", "AssertionError"),
        ("supports only in fast mode", "AssertionError"),
        ("not supported", "toy.InternalError"),
        ("Internal error: Foo is not supported: sizes 3 and 4 differ", "RuntimeError"),
        ("'toy.Tensor' object does not support item assignment", "TypeError"),
        ("Foo is not supported on gpu, falling back to cpu\nshapes differ", "RuntimeError"),
        ("unsupported operand type(s) for +: 'int' and 'str'", "TypeError"),
        ("fileno", "io.UnsupportedOperation"),
        ("the supported range is 0 to 3", "RuntimeError"),
        ("unknown shape of x", "RuntimeError"),
        ("there is no kernel name", "RuntimeError"),
        ("the constant value must be broadcastable", "RuntimeError"),
        ("the shape is not a constant expression of rank 2", "RuntimeError"),
        ("unknown type of x", "RuntimeError"),
        ("the buffer has not been allocated yet", "RuntimeError"),
        ("the fast mode is not enabled", "RuntimeError"),
        ("thread extent 2048 exceeds the hardware limitation of 1024", "RuntimeError"),
        ("stack limitation reached while visiting node 12", "RuntimeError"),
        ("value %3 is not available yet when its user is scheduled", "RuntimeError"),
        ("operand 1 is not allowed to be live yet", "RuntimeError"),
        ("the pass does not know how to continue: use-list is corrupt", "RuntimeError"),
    ],
)
def test_false_friends(message, error_type):
    assert not refuses(message, error_type)


CALLED = (
    'Traceback (most recent call last):\n  File "/adapter.py", line 3, in build\n    toy.run(x)\n'
)


def test_what_native_code_says_of_its_limits_is_no_slip_of_its_caller():
    assert refuses("object arrays are not supported", "TypeError", traceback=CALLED)
    assert not refuses("'NoneType' object is not callable", "TypeError", traceback=CALLED)
    assert slip("struct.error") and slip("TypeError") and not slip("toy.error")


@pytest.mark.parametrize("name", ["UnsupportedOp", "OpNotImplemented", "NotSupportedError"])
def test_classes_that_say_it(name):
    assert refuses("Foo", f"toy.{name}") and refuses("Foo", "toy.Odd", bases=("Odd", name))
    assert not refuses("Foo", "toy.Odd", bases=("Odd", "RuntimeError"))


CHAIN = """Traceback (most recent call last):
  File "/toy/table.py", line 3, in find
    return TABLE[name]
KeyError: 'Foo'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/toy/convert.py", line 9, in convert
    raise {raised} from error
{raised}
"""


@pytest.mark.parametrize(
    ("raised", "refused"),
    [("toy.NoFoo: Foo is not supported", True), ("toy.NoFoo: converting Foo", False)],
)
def test_a_refusal_may_be_any_cause_of_a_chain(raised, refused):
    error_type, _, message = raised.partition(": ")
    trace = CHAIN.format(raised=raised)
    told = read_complaint(CompilerError(Stage.IMPORT, error_type, message, trace))
    assert (told.kind is ComplaintKind.UNSUPPORTED) is refused
    assert told.subject == ("Foo is not supported" if refused else "'Foo'")


def test_an_exporters_words_are_left_to_its_adapter():
    assert not refuses("No Op registered for Foo", stage=Stage.EXPORT)
    assert refuses("Foo", "NotImplementedError", stage=Stage.EXPORT)


def test_levels_of_a_log_are_no_statements():
    told = "I Reading\nW Foo is not supported here\nE load: TYPE FLOAT differs\nE load: ERROR: of x"
    found = read_complaint(CompilerError(Stage.IMPORT, "RuntimeError", told))
    assert found.subject == "TYPE FLOAT differs ERROR: of x"
    assert found.kind is not ComplaintKind.UNSUPPORTED


def test_words_that_change_between_repetitions_are_no_part_of_a_complaint():
    told = "compiling {} failed in unit tmp{}: no rule for 'Foo' behind {:#x}"
    words = [("/t/aq/k.c", "xwq", 4711), ("/t/zz/k.c", "bfd", 12), ("/t/b/k.c", "kkk", 9)]
    first, *again = (Complaint(subject=told.format(*each)) for each in words)
    steady = first.steady(again)
    assert steady.varies and "tmp" not in steady.subject and "no rule for 'Foo'" in steady.subject
    assert (
        len({normalise(c.steady([first]).subject) for c in again} | {normalise(steady.subject)})
        == 1
    )
    assert first.steady([first]) == first
    assert first.steady([Complaint(subject="out of memory")]) == first


def test_how_often_a_statement_occurs_is_chance():
    once = "error: undefined symbol foo_1"
    assert stated_cause(once) == stated_cause(f"{once}\n{once}")
    assert stated_cause(f"{once}\nerror: undefined symbol foo_2") in (
        once,
        "error: undefined symbol foo_2",
    )
