"""Support tables in memory, and the signatures of a graph."""

from __future__ import annotations

import pytest

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.feedback.support import (
    FAILING,
    INSTANCES,
    NOTHING,
    OK,
    UNSUPPORTED,
    ProbeAnswer,
    ProbeAnswers,
    Support,
    SupportEntry,
    answer_of,
    generalised,
    signature_keys,
    telling_line,
    worst,
)
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.ir.view import GraphView

SIGNATURES = ["Add(int8)->int8", "Add(bool)->bool", "Where(bool,int8)->int8"]


VARIABLES = {"Add": [0], "Where": [0, 1]}


GRAPH = GraphView.from_json(
    {
        "values": [["x", "int8", [2]], ["c", "bool", [2]], ["y", "int8", [2]], ["z", "int8", [2]]],
        "nodes": [
            {"op": "Add", "inputs": ["x", "x"], "outputs": ["y"]},
            {"op": "Where", "inputs": ["c", "y", "x"], "outputs": ["z"]},
        ],
    }
)


def test_signatures_are_read_off_the_graph():
    assert signature_keys(GRAPH, VARIABLES) == {SIGNATURES[0], SIGNATURES[2]}


KEY = SupportKey.parse("direct:Add(int8)->int8")


def test_the_worst_level_counts():
    answers = [ProbeAnswer(kind, kind) for kind in (OK, UNSUPPORTED, FAILING, FAILING)]
    assert worst(answers) is answers[2] and worst(answers[:2]) is answers[1]
    assert worst([ProbeAnswer(NOTHING), answers[0]]) is answers[0]


@pytest.mark.parametrize(
    "kind, answer",
    [
        (OutcomeKind.OK, OK),
        (OutcomeKind.NOT_COMPARED, OK),
        (OutcomeKind.UNSUPPORTED, UNSUPPORTED),
        (OutcomeKind.CRASH, FAILING),
        (OutcomeKind.MISMATCH, FAILING),
    ],
)
def test_outcomes_are_answers(kind, answer):
    outcome = Outcome(kind, Stage.COMPILE, Target("toy", pipeline="O1"), message="no\nmore")
    found = answer_of(outcome)
    assert found.kind == answer
    assert found.message == ("" if answer == OK else f"{kind} in compile at O1: no")


@pytest.mark.parametrize(
    "kinds, status",
    [
        ([OK], OK),
        ([UNSUPPORTED, UNSUPPORTED, OK], OK),
        ([UNSUPPORTED] * INSTANCES, UNSUPPORTED),
        ([UNSUPPORTED, FAILING, UNSUPPORTED], FAILING),
        ([UNSUPPORTED, NOTHING], ""),
    ],
)
def test_several_probes_decide(kinds, status):
    table = Support("toy")
    more = [table.add_answer(KEY, ProbeAnswer(kind)) for kind in kinds]
    assert table.entries[KEY].status == status and bool(table.undecided([KEY])) == (not status)
    assert all(more[:-1]) and not more[-1]
    table.add_run([KEY])
    assert table.entries[KEY].status == (status or OK)


def test_one_refusal_can_be_enough():
    table = Support("toy")
    assert not table.add_answer(KEY, ProbeAnswer(UNSUPPORTED, "no kernel"), enough=1)
    assert table.refused() == {KEY: "no kernel"} and not table.failing()


def test_answers_are_known_once_all_levels_are():
    answers = ProbeAnswers()
    answers.add("toy", KEY, 0, {"O0": ProbeAnswer(OK)})
    assert answers.get("toy", KEY, 0, ["O0"]) == ProbeAnswer(OK)
    assert answers.get("toy", KEY, 0, ["O0", "O1"]) is None
    assert answers.get("toy", KEY, 1, ["O0"]) is None and answers.get("other", KEY, 0, []) is None
    answers.add("toy", KEY, 1, {ProbeAnswers.ANY: ProbeAnswer(UNSUPPORTED)})
    assert answers.get("toy", KEY, 1, ["O0", "O1"]) == ProbeAnswer(UNSUPPORTED)


def entries_of(**statuses):
    """Statuses by "WRITER:SIGNATURE"."""
    return {SupportKey.parse(k): SupportEntry(s, f"at O0: no {k}") for k, s in statuses.items()}


def test_a_table_says_what_is_refused_with_few_keys_and_nothing_of_what_runs_or_fails():
    entries = entries_of(
        **{
            "direct@18:Celu(float32)->float32": UNSUPPORTED,
            "direct@18:Celu(float16)->float16": UNSUPPORTED,
            "torchscript@18:Celu(float32)->float32": UNSUPPORTED,
            "direct@18:Pad(float32)->float32": OK,
            "torchscript@18:Pad(float32)->float32": UNSUPPORTED,
            "direct@18:Add(bool)->bool": UNSUPPORTED,
            "direct@13:Add(bool)->bool": UNSUPPORTED,
            "direct@18:Add(int8)->int8": OK,
            "direct@18:Sin(int8)->int8": UNSUPPORTED,
            "direct@13:Sin(int8)->int8": OK,
            "direct@18:Det(float16)->float16": UNSUPPORTED,
            "direct@18:Det(float32)->float32": FAILING,
        }
    )
    wanted = [
        *("Add(bool)->bool", "Celu", "Det(float16)->float16"),
        *("direct@18:Sin(int8)->int8", "torchscript:Pad"),
    ]
    table = generalised(entries)
    assert [str(key) for key in table] == wanted
    assert all(entry.refused for entry in table.values())
    assert table[SupportKey.parse("Add(bool)->bool")].message.endswith(
        "no direct@18:Add(bool)->bool"
    )


def test_of_a_refusal_the_line_counts_that_says_what_is_not_supported():
    told = "Exception from core.cpp:105:\n-- No conversion rule found for operations: Det-22"
    assert telling_line(told) == "-- No conversion rule found for operations: Det-22"
    assert telling_line("broken\npipe") == "broken" and telling_line("") == ""
