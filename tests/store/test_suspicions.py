"""Findings that may have one cause are listed as one, and one of them is reduced."""

from __future__ import annotations

from dataclasses import replace

from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.records.rows import AvoidedRow, FindingRow, ReductionRow
from nnfuzz.store.suspicions import Suspicions, by_value, suspicion_of
from nnfuzz.testcase.identity import Numbered
from nnfuzz.triage.signature import Failure, Signature

TARGETS = (Target("toy", pipeline="O1"),)


def row(signature, kind="mismatch", suspicion="", occurrences=1, size=5, **more):
    return FindingRow(
        signature,
        Numbered(1, 0),
        kind,
        "compare",
        "toy",
        "O1",
        "title",
        f"findings/{signature}",
        occurrences=occurrences,
        size=size,
        suspicion=suspicion,
        **more,
    )


ROWS = [
    row("a", suspicion="wrong at Add", occurrences=2),
    row("b", suspicion="wrong at Add", occurrences=3, size=3),
    row("c", suspicion="wrong at Mul", occurrences=4),
    row("d", kind="exception", suspicion="wrong at Add", occurrences=9),
]


def test_the_smallest_model_stands_for_all_of_a_suspicion():
    listed = Suspicions.of(ROWS).merged(ROWS)
    assert [(r.signature, r.suspects, r.occurrences) for r in listed] == [
        ("b", ("a",), 5),
        ("c", (), 4),
        ("d", (), 9),
    ]
    assert listed[0].others_in_words == "1 suspected of its cause"


def test_what_a_failure_is_associated_with_makes_one_too():
    avoided = [AvoidedRow("Exp(float32)->float32", "c", ""), AvoidedRow("Exp(int8)->int8", "c", "")]
    items = {"a": {"Exp(int8)->int8"}, "c": {"Exp(float32)->float32"}, "d": {"Exp(int8)->int8"}}
    names = Suspicions.of(ROWS, avoided, items).names
    assert names["a"] == names["c"]
    assert len({names["a"], names["b"], names["d"]}) == 3


def test_suspicions_take_turns_the_most_frequent_first():
    suspicions = Suspicions.of(ROWS)
    turns = suspicions.turns(ROWS, {})
    assert [r.signature for r in turns] == ["d", "b", "a", "c"]
    had = {"b": ReductionRow("b")}
    assert [
        r.signature for r in suspicions.turns([r for r in ROWS if r.signature != "b"], had)
    ] == [
        "d",
        "c",
        "a",
    ]


def test_reduced_findings_stay_what_they_are():
    done = row("a", suspicion="wrong at Add", cause="r", duplicates=("x", "y"), suspects=("z",))
    listed = Suspicions.of(ROWS).merged([done, ROWS[1]])
    assert [r.signature for r in listed] == ["a", "b"]
    assert listed[0].others_in_words == "2 of the same cause, 1 suspected of its cause"


def test_suspicions_of_mismatches_name_the_operator():
    parts = {"wrong": "value", "operators": ["Conv", "Relu"]}
    told = Failure(Signature("h", "", parts), OutcomeKind.MISMATCH, Stage.COMPARE, TARGETS)
    assert suspicion_of(told) == "wrong value at Conv"
    error = Failure(Signature("h", ""), OutcomeKind.EXCEPTION, Stage.IMPORT, TARGETS)
    other = replace(error, label="toy,opt=1")
    assert suspicion_of(error) == suspicion_of(other)
    assert suspicion_of(error) != suspicion_of(replace(error, signature=Signature("g", "", parts)))


def test_findings_are_listed_by_value():
    listed = by_value(
        [
            row("exception", kind="exception", occurrences=99, severity="fails"),
            row("timeout", kind="timeout", occurrences=50, severity="fails"),
            row("large", occurrences=4, nodes=(9, 3)),
            row("small", occurrences=4, nodes=(9, 1)),
            row("zeros", occurrences=70, nodes=(9, 1), severity="zeros"),
            row("crash", kind="crash", occurrences=5, severity="memory"),
            row("rare"),
            row("reduced", kind="exception", nodes=(9, 1), severity="fails"),
        ]
    )
    reduced = ["small", "large", "reduced", "zeros"]
    wanted = [*reduced, "crash", "exception", "timeout", "rare"]
    assert [r.signature for r in listed] == wanted
