"""What counts as one finding among the answers to models that must be refused."""

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.triage.signature import failures
from nnfuzz.vary.faults.fault import Fault

AXIS = Fault("wrong-axis", "axis of Concat is 7", "a clause", "Concat")
CYCLE = Fault("cycle", "Add reads its own result 'v1'", "a clause", "Add")


def outcome(kind, level="O0", **told):
    return Outcome(kind, Stage.COMPILE, Target("toy", pipeline=level), **told)


def keys(fault, *outcomes):
    return [f.signature.hash for f in failures(outcomes, fault=fault)]


def test_a_refusal_is_no_failure():
    for kind in (OutcomeKind.REFUSED, OutcomeKind.UNSUPPORTED, OutcomeKind.OK):
        assert not keys(AXIS, outcome(kind))


def test_acceptance_is_known_by_the_kind_of_fault():
    accepted = outcome(OutcomeKind.ACCEPTED)
    assert keys(AXIS, accepted) == keys(Fault("wrong-axis", "axis of Split is 9", ""), accepted)
    assert keys(AXIS, accepted) != keys(CYCLE, accepted)
    both = failures([accepted, outcome(OutcomeKind.ACCEPTED, "O3")], fault=AXIS)
    assert [f.levels for f in both] == [("O0", "O3")]


def test_an_internal_error_is_known_by_its_place_whatever_led_there():
    trace = '  File "/x/toy/importer.py", line 7, in convert\n    x = attrs["a"]\nKeyError: "a"\n'
    one = outcome(OutcomeKind.EXCEPTION, error_type="KeyError", message="'a'", traceback=trace)
    two = outcome(OutcomeKind.EXCEPTION, error_type="KeyError", message="'b'", traceback=trace)
    assert keys(AXIS, one) == keys(CYCLE, two)


def test_words_of_native_code_do_not_name_the_operator():
    said = "While validating node '<Node(Concat): Concat_1>': vector::_M_range_check"
    one = outcome(OutcomeKind.EXCEPTION, error_type="RuntimeError", message=said)
    other = said.replace("Concat", "Add")
    two = outcome(OutcomeKind.EXCEPTION, error_type="RuntimeError", message=other)
    assert keys(AXIS, one) == keys(CYCLE, two)


def test_what_native_code_raises_is_known_by_its_words():
    trace = '  File "/x/toy/api.py", line 7, in read_model\n    return core.read(model)\nX\n'
    one, other = (
        outcome(OutcomeKind.EXCEPTION, error_type="RuntimeError", message=told, traceback=trace)
        for told in ("stoull", "vector::_M_range_check")
    )
    assert keys(AXIS, one) != keys(AXIS, other)
    assert keys(AXIS, one) == keys(CYCLE, one)


def test_a_death_without_words_is_known_by_signal_and_fault():
    last = "Fatal Python error: Segmentation fault"
    died = outcome(OutcomeKind.CRASH, signal="SIGSEGV", message="killed by SIGSEGV", captured=last)
    assert keys(AXIS, died) == keys(AXIS, died)
    assert keys(AXIS, died) != keys(CYCLE, died)
