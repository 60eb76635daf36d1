"""Failures of a test case, and when two of them are the same finding."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nnfuzz.backend.complaint import Complaint
from nnfuzz.backend.numeric import CONSIDERED, SATURATES, Deviation
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.compare.mismatch import Mismatch, MismatchKind, Verdict
from nnfuzz.ir.view import NO_GRAPH, GraphView, NodeView
from nnfuzz.triage.mismatch import wrong_outputs
from nnfuzz.triage.signature import (
    HASH_DIGITS,
    ErrorDetails,
    HabitDetails,
    HangDetails,
    MismatchDetails,
    RefusalDetails,
    Signature,
    UnknownDetails,
    corrupted,
    details_of,
    digest_of,
    export_failure,
    failures,
    habits_of,
    level_pattern,
    message_of,
    neighbourhood,
    operators_of,
    wordless,
    wrong_of,
)

GRAPH = GraphView.from_json(
    {
        "values": [["x", "float32", [2]], ["h", "float32", [2]], ["y", "float32", [2]]],
        "nodes": [
            {"op": "Conv", "attributes": {}, "inputs": ["x"], "outputs": ["h"]},
            {"op": "Add", "attributes": {}, "inputs": ["h", "h"], "outputs": ["y"]},
        ],
    }
)


def outcome(level, kind=OutcomeKind.OK, stage=Stage.EXECUTE, backend="toy", **fields):
    return Outcome(kind, stage, Target(backend, pipeline=level), **fields)


def failed(level, message="bad 1", **fields):
    fields = {"error_type": "pkg.Error", "message": message, **fields}
    return outcome(level, OutcomeKind.EXCEPTION, Stage.COMPILE, **fields)


def crashed(level, captured="", signal="SIGSEGV"):
    return outcome(
        level, OutcomeKind.CRASH, signal=signal, message=f"killed by {signal}", captured=captured
    )


def verdict(**wrong):
    """level=[(output, kind), ...]"""
    return Verdict(
        {
            Target("toy", pipeline=level): tuple(Mismatch(o, MismatchKind(k)) for o, k in listed)
            for level, listed in wrong.items()
        }
    )


def only(*args):
    (failure,) = failures(*args)
    return failure


def test_all_ok_is_no_failure():
    ran = [outcome("O0"), outcome("O1", OutcomeKind.UNSUPPORTED)]
    assert failures(ran, verdict(O0=[], O1=[]), GRAPH) == []


def test_levels_that_fail_alike_are_one_failure():
    failure = only([failed("O0"), failed("O1", "bad 22")])
    assert failure.levels == ("O0", "O1")
    assert failure.signature.title == "toy: bad 1 (compile, all levels)"
    assert len(failure.signature.hash) == HASH_DIGITS


def test_levels_that_fail_differently_are_two():
    found = failures([failed("O0"), failed("O1", "quite another")])
    assert [f.levels for f in found] == [("O0",), ("O1",)]
    assert found[0].signature.hash != found[1].signature.hash


def test_the_number_of_levels_run_does_not_matter():
    two = only([outcome("O0"), failed("O3")])
    four = only([outcome("O0"), failed("O1"), failed("O2"), failed("O3")])
    assert two.signature.hash == four.signature.hash
    assert "O3 only)" in two.signature.title


@pytest.mark.parametrize(
    "failing, pattern",
    [
        ("0 1 2", "everywhere"),
        ("1 2", "optimised"),
        ("2", "optimised"),
        ("0", "everywhere"),
        ("0 2", "everywhere"),
    ],
)
def test_level_pattern(failing, pattern):
    assert level_pattern(failing.split(), ["0", "1", "2"]) == pattern


def test_one_level_alone_says_nothing_of_the_optimiser():
    assert level_pattern(["2"], ["2"]) == "everywhere"


def test_a_level_that_does_not_take_the_model_says_nothing():
    """Neither that it takes optimisation to fail, nor that one level is right."""
    silent = outcome("O0", OutcomeKind.UNSUPPORTED)
    alone, everywhere = only([silent, crashed("O3")]), only([crashed("O0"), crashed("O3")])
    assert alone.signature.hash == everywhere.signature.hash
    assert (
        "only" not in only([failed("O0"), outcome("O3", OutcomeKind.UNSUPPORTED)]).signature.title
    )


def test_what_habits_account_for_is_no_part_of_another_failure():
    both = verdict(O0=[("v0", "value"), ("v1", "shape")])
    told = replace(both, habitual={target: ("v0",) for target in both.mismatches})
    alone = verdict(O0=[("v1", "shape")])
    first, rest, other = (only([outcome("O0")], v, GRAPH) for v in (both, told, alone))
    assert rest.signature.hash == other.signature.hash != first.signature.hash
    assert read(Verdict, as_json(told)) == told
    assert {w.output for w in wrong_outputs(told)} == {"v1"}
    assert {w.output for w in wrong_outputs(told, habitual=True)} == {"v0", "v1"}


def test_an_error_is_the_same_at_whatever_levels():
    fine = outcome("O0"), outcome("O3")
    everywhere = only([failed("O0"), failed("O3")])
    least = only([failed("O0"), fine[1]])
    most = only([fine[0], failed("O3")])
    assert len({f.signature.hash for f in (everywhere, least, most)}) == 1
    assert [f.levels for f in (everywhere, least, most)] == [("O0", "O3"), ("O0",), ("O3",)]
    with_words = "malloc(): invalid size"
    crashes = [
        only([crashed("O0", with_words), fine[1]]),
        only([fine[0], crashed("O3", with_words)]),
    ]
    assert crashes[0].signature.hash == crashes[1].signature.hash


@pytest.mark.parametrize(
    "kind", [OutcomeKind.TIMEOUT, OutcomeKind.CRASH], ids=["timeout", "wordless crash"]
)
def test_without_words_the_optimiser_makes_a_difference(kind):
    def at(*levels):
        ran = [
            outcome(level, kind if level in levels else OutcomeKind.OK) for level in ("O0", "O1")
        ]
        return only(ran).signature.hash

    assert at("O0", "O1") == at("O0") != at("O1")


def test_a_mismatch_everywhere_is_another_than_the_optimisers():
    def at(*levels):
        wrong = {level: [("y", "value")] if level in levels else [] for level in ("O0", "O1")}
        return only([outcome("O0"), outcome("O1")], verdict(**wrong), GRAPH).signature.hash

    assert at("O0", "O1") == at("O0") != at("O1")


@pytest.mark.parametrize(
    "change",
    [
        {"stage": Stage.IMPORT},
        {"target": Target("other", pipeline="O0")},
        {"error_type": "pkg.Other"},
        {"message": "worse"},
        {"traceback": 'Traceback (most recent call last):\n  File "/c/z.py", line 1, in f\n'},
    ],
)
def test_what_tells_exceptions_apart(change):
    one = failed("O0")
    assert only([one]).signature.hash != only([replace(one, **change)]).signature.hash


def test_crashes_by_signal_and_last_words():
    hashes = {
        only([o]).signature.hash
        for o in (
            crashed("O0"),
            crashed("O0", signal="SIGABRT"),
            crashed("O0", "noise\nmalloc(): invalid size"),
            crashed("O0", "#1  0x1 in compiler::fuse (x=1) at fuse.cc:1"),
        )
    }
    assert len(hashes) == 4
    assert only([crashed("O0", "noise 1")]).signature == only([crashed("O0")]).signature


DIED = "Fatal Python error: Segmentation fault\n"


def test_a_wordless_death_is_known_by_the_only_operator_of_the_model():
    one, other = (GraphView(nodes=(NodeView(op, ("x",), ("y",)),)) for op in ("Elu", "Exp"))
    for captured in ("", DIED):
        died = [crashed("O0", captured)]
        elu, exp, several = (only(died, None, graph) for graph in (one, other, GRAPH))
        assert elu.signature.parts["operators"] == ["Elu"]
        assert " at Elu (SIG" in elu.signature.title
        assert "operators" not in several.signature.parts
        hashes = {failure.signature.hash for failure in (elu, exp, several)}
        assert len(hashes) == 3


@pytest.mark.parametrize("captured", ["#1  0x1 in ns::fuse (x=1) at a.cc:1", "x: Assertion `y'"])
def test_a_death_with_a_place_or_words_is_not_told_by_operators(captured):
    one = GraphView(nodes=(NodeView("Elu", ("x",), ("y",)),))
    died = [crashed("O0", captured)]
    assert only(died, None, one).signature == only(died).signature


def test_timeout_is_known_by_its_stage():
    late = outcome("O0", OutcomeKind.TIMEOUT, Stage.COMPILE, captured="compiling 1 of 7")
    assert only([late]).signature == only([replace(late, captured="")]).signature


def test_mismatch_is_known_by_the_operators():
    failure = only([outcome("O0"), outcome("O1")], verdict(O0=[], O1=[("y", "value")]), GRAPH)
    assert failure.kind is OutcomeKind.MISMATCH and failure.stage is Stage.COMPARE
    assert failure.signature.title == "toy: wrong value at Add after Conv (O1 only)"
    nodes = NodeView("Conv", ("a",), ("b",)), NodeView("Add", ("b", "c"), ("d",))
    renamed = GraphView(nodes=nodes)
    other = only([outcome("O0"), outcome("O1")], verdict(O0=[], O1=[("d", "value")]), renamed)
    assert other.signature == failure.signature


def test_the_first_wrong_output_decides():
    both = verdict(O0=[("y", "shape"), ("h", "value")])
    assert only([outcome("O0")], both, GRAPH).signature.parts["operators"] == ["Conv"]


def test_neighbourhood_of_an_unknown_output_is_empty():
    assert neighbourhood(GRAPH, "nowhere") == neighbourhood(NO_GRAPH, "y") == ()


def test_backends_fail_separately():
    found = failures([failed("O0", backend="a"), failed("O0", backend="b")])
    assert [f.backend for f in found] == ["a", "b"]


def test_export_failure():
    failure = export_failure("torchscript", "UnsupportedOperatorError", "aten::cosh is unsupported")
    assert failure.stage is Stage.EXPORT
    assert failure.signature.title.endswith("aten::cosh is unsupported (export)")


def test_json_round_trip():
    signature = only([failed("O0")]).signature
    assert read(Signature, as_json(signature)) == signature


def test_a_word_of_an_attribute_that_messages_have_anyway_stays():
    """Whether "min" names a mode of the model or an operand of Clip, the failure is the same."""
    node = NodeView("ScatterElements", ("x",), ("h",), {"reduction": "min"})
    with_mode = replace(GRAPH, nodes=(node, *GRAPH.nodes[1:]))
    told = [failed("O3", "unexpected type for Clip 'min'")]
    assert only(told, None, with_mode).signature.hash == only(told, None, GRAPH).signature.hash


def test_each_habit_that_it_takes_is_a_failure_of_its_own():
    wrong = verdict(O0=[("h", "value")], O3=[("h", "value")])
    narrow, wrap = Deviation("float64", "float32"), Deviation("int8", SATURATES)
    o0, o3 = wrong.mismatches
    both = replace(wrong, explained={o0: (narrow, wrap), o3: (wrap,)})
    found = failures([outcome("O0"), outcome("O3")], both, GRAPH)
    assert [f.levels for f in found] == [("O0",), ("O0", "O3")]
    alone = replace(wrong, explained={o0: (wrap,), o3: (wrap,)})
    one = only([outcome("O0"), outcome("O3")], alone, GRAPH)
    assert found[1].signature.hash == one.signature.hash


FILES = sorted((Path(__file__).parent / "testdata").rglob("*.json"))
COMMON = {"backend": "tvm", "kind": "mismatch", "stage": "compare"}
FORMS = [
    (ErrorDetails, {"kind": "crash", "stage": "compile", "error": "", "signal": "SIGSEGV",
                     "message": "", "frames": [], "operators": ["Elu"], "levels": "optimised"}),
    (HangDetails, {"kind": "timeout", "stage": "execute", "levels": "everywhere"}),
    (MismatchDetails, {**COMMON, "wrong": "value", "operators": ["Conv", "Relu"],
                        "switches": ["pads"], "levels": "everywhere"}),
    (HabitDetails, {**COMMON, "habits": ["int8 saturates where it should wrap around"]}),
    (RefusalDetails, {"kind": "accepted", "fault": "cycle", "levels": "optimised"}),
    (RefusalDetails, {"kind": "exception", "error": "KeyError", "frames": ["a.py:f"]}),
    (RefusalDetails, {"kind": "crash", "signal": "SIGABRT", "message": "x", "fault": "cycle"}),
    (UnknownDetails, {"passes": ["Fuse"], "backend": "tvm"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "parts"), FORMS)
def test_each_kind_of_failure_has_its_record(kind, parts):
    found = details_of(parts)
    assert type(found) is kind and found.to_json() == parts
    assert details_of(found.to_json()) == found and digest_of(found.to_json()) == digest_of(parts)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_signatures_that_were_written_are_read(file):
    data = json.loads(file.read_text())
    listed = data["signatures"] if isinstance(data, dict) else [d["signature"] for d in data]
    for signature in listed:
        found = details_of(signature["parts"])
        assert not isinstance(found, UnknownDetails)
        assert digest_of(found.to_json()) == digest_of(signature["parts"])


def test_any_identity_may_be_asked():
    hang = HangDetails(kind=OutcomeKind.TIMEOUT, stage=Stage.COMPILE)
    asked = (message_of(hang), wrong_of(hang), operators_of(hang), habits_of(hang))
    assert asked == ("", "", (), ()) and not corrupted(hang) and not wordless(hang)
    died = ErrorDetails(message="", signal="SIGSEGV")
    assert corrupted(died) and wordless(died)
    placed = ErrorDetails(message="", signal="SIGSEGV", frames=("ns::kernel",))
    assert not corrupted(placed) and not wordless(placed)


def test_habits_are_read_from_their_text():
    for habit in CONSIDERED:
        assert Deviation.parse(str(habit)) == habit
    narrow = [
        Deviation.parse(f"{d} saturates where it should wrap around") for d in ("int8", "int16")
    ]
    assert len({habit.decision for habit in narrow}) == 1
    with pytest.raises(ValueError, match="no habit"):
        Deviation.parse("anything else")


def test_words_that_change_leave_message_and_title():
    (failure,) = failures([failed("O0", "unit aBx failed: no rule for aBx_exp twice")])
    kept = failure.with_words("unit failed: no rule for twice".split())
    assert kept.signature.parts["message"] == "unit failed: no rule for twice"
    assert "aBx" not in kept.signature.title and "no rule for twice" in kept.signature.title
    said = Complaint(subject="unit cDy failed: no rule for cDy_exp twice")
    assert said.with_words(kept.steady_words).subject == "unit failed: no rule for twice"
