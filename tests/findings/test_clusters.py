"""What is reduced once for all that look alike, and how the groups are told."""

from __future__ import annotations

from dataclasses import replace

from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.findings.clusters import Clusters, complaint_of
from nnfuzz.records.order import by_value
from nnfuzz.records.rows import AvoidedRow, FindingRow, Grouping, ReductionRow
from nnfuzz.testcase.identity import Numbered
from nnfuzz.triage.signature import Failure, Signature

TARGETS = (Target("toy", pipeline="O1"),)


def row(signature, kind="mismatch", complaint="", occurrences=1, size=5, **more):
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
        complaint=complaint,
        **more,
    )


ROWS = [
    row("a", complaint="wrong at Add", occurrences=2),
    row("b", complaint="wrong at Add", occurrences=3, size=3),
    row("c", complaint="wrong at Mul", occurrences=4),
    row("d", kind="exception", complaint="wrong at Add", occurrences=9),
]


def test_the_complaint_makes_a_cluster_and_the_smallest_model_stands_for_it():
    listed = Clusters.of(ROWS).merged(ROWS, {})
    assert [(r.signature, r.grouping.similar, r.occurrences) for r in listed] == [
        ("b", ("a",), 5),
        ("c", (), 4),
        ("d", (), 9),
    ]
    assert str(listed[0].grouping) == "1 suspected, since they fail alike"


def test_what_a_failure_is_associated_with_makes_one_too():
    avoided = [AvoidedRow("Exp(float32)->float32", "c", ""), AvoidedRow("Exp(int8)->int8", "c", "")]
    items = {"a": {"Exp(int8)->int8"}, "c": {"Exp(float32)->float32"}, "d": {"Exp(int8)->int8"}}
    names = Clusters.of(ROWS, avoided, items).names
    assert names["a"] == names["c"]
    assert len({names["a"], names["b"], names["d"]}) == 3


def test_clusters_take_turns_the_most_frequent_first():
    clusters = Clusters.of(ROWS)
    turns = clusters.turns(ROWS, {})
    assert [r.signature for r in turns] == ["d", "b", "a", "c"]
    had = {"b": ReductionRow("b")}
    assert [r.signature for r in clusters.turns([r for r in ROWS if r.signature != "b"], had)] == [
        "d",
        "c",
        "a",
    ]


def test_reduced_findings_stay_what_they_are():
    done = row("a", complaint="wrong at Add")
    done = replace(done, grouping=Grouping("r", duplicates=("x", "y"), suspects=("z",)))
    reductions = {"x": ReductionRow("x", "r", explained=True), "y": ReductionRow("y", "r")}
    listed = Clusters.of(ROWS).merged([done, ROWS[1]], reductions)
    assert [r.signature for r in listed] == ["a", "b"]
    assert listed[0].grouping.explained == ("x",)
    assert str(listed[0].grouping) == (
        "1 reduced to the same; 1 explained by running its pattern; "
        "1 suspected and not asked yet, since their models contain its pattern"
    )


def test_complaints_of_mismatches_name_the_operator():
    parts = {"wrong": "value", "operators": ["Conv", "Relu"]}
    told = Failure(Signature("h", "", parts), OutcomeKind.MISMATCH, Stage.COMPARE, TARGETS)
    assert complaint_of(told) == "wrong value at Conv"
    error = Failure(Signature("h", ""), OutcomeKind.EXCEPTION, Stage.IMPORT, TARGETS)
    other = replace(error, label="toy,opt=1")
    assert complaint_of(error) == complaint_of(other)
    assert complaint_of(error) != complaint_of(replace(error, signature=Signature("g", "", parts)))


def test_findings_are_listed_by_value():
    listed = by_value(
        [
            row("exception", kind="exception", occurrences=99),
            row("timeout", kind="timeout", occurrences=50),
            row("large", occurrences=4, grouping=Grouping(nodes=(9, 3))),
            row("small", occurrences=4, grouping=Grouping(nodes=(9, 1))),
            row("crash", kind="crash", occurrences=5),
            row("rare"),
            row("reduced", kind="exception", grouping=Grouping(nodes=(9, 1))),
        ]
    )
    wanted = ["small", "large", "reduced", "crash", "timeout", "exception", "rare"]  # not reduced
    assert [r.signature for r in listed] == wanted
