"""Support tables in memory, and the signatures of a graph."""

from __future__ import annotations

import pytest

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.feedback.support import (
    FAILING,
    OK,
    UNSUPPORTED,
    Answer,
    answer_of,
    generalised,
    newest,
    remaining,
    signature_keys,
    telling_line,
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


def answers_of(**kinds):
    """Answers by "WRITER:SIGNATURE"."""
    return {SupportKey.parse(k): Answer(kind, f"at O0: no {k}") for k, kind in kinds.items()}


def test_a_table_says_what_is_refused_with_few_keys_and_nothing_of_what_runs_or_fails():
    answers = answers_of(
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
    table = generalised(answers)
    assert [str(key) for key in table] == wanted
    assert table[SupportKey.parse("Add(bool)->bool")] == "no direct@18:Add(bool)->bool"
    celu = "Celu(float32)->float32"
    assert remaining(answers, table) == {*map(SupportKey.parse, LEFT)}
    older = [SupportKey.parse(f"{w}:{celu}") for w in ("direct@13", "direct@26", "torchscript@18")]
    assert newest(older) == older[1:]


LEFT = (
    *("Pad(float32)->float32", "Add(int8)->int8", "Sin(int8)->int8"),
    "Det(float32)->float32",
)


def test_of_a_refusal_the_line_counts_that_says_what_is_not_supported():
    told = "Exception from core.cpp:105:\n-- No conversion rule found for operations: Det-22"
    assert telling_line(told) == "-- No conversion rule found for operations: Det-22"
    assert telling_line("broken\npipe") == "broken" and telling_line("") == ""
