"""Questions to reference implementations: agreement, examples, the report."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
import torch
from rich.console import Console

from nnfuzz.check.operators import check_operator, check_operators
from nnfuzz.check.questions import (
    COUNTS,
    MOST_PROBLEMS,
    CheckReport,
    Expected,
    example_of,
    listing,
    numeric_faults,
    report_table,
)
from nnfuzz.check.runtimes import BODY, BUNDLED, EVALUATOR
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.families.elementwise import Increasing
from nnfuzz.operators.operator import operator
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.operators.waiver import NONE, Waiver, Waivers, reference

X = np.array([0.5, 1.0, 2.0], np.float32)


@pytest.fixture
def exp():
    return OpRegistry.load().get("Exp")()


def test_rounding_agrees_and_a_wrong_value_does_not(exp):
    expected = Expected.of(exp, [X])
    exact = np.exp(X.astype(np.float64))
    assert not expected.contradicts([exact.astype(np.float32)])
    assert not expected.contradicts([np.nextafter(exact.astype(np.float32), np.float32(9))])
    wrong = exact.astype(np.float32)
    wrong[1] *= 1.01
    assert expected.contradicts([wrong]).startswith("output 0[1] is ")


def test_other_numbers_and_types_of_outputs_are_named(exp):
    expected = Expected.of(exp, [X])
    assert expected.contradicts([]) == "0 outputs instead of 1"
    assert expected.contradicts([np.exp(X)[:2]]) == "output 0: shape [2], expected [3]"


def test_claims_of_a_spec_are_held_against_it(exp, monkeypatch):
    expected = Expected.of(exp, [X])
    assert numeric_faults(exp, [X], expected) == []
    monkeypatch.setattr(type(exp), "value_range", lambda self, *ranges: (0.0, 1.0))
    (fault,) = numeric_faults(exp, [X], expected)
    assert "value_range" in fault and "excludes" in fault


def spec_of(torch_, name="Tanh"):
    """An increasing function, under the name of an ONNX operator that may be another one."""
    fields = {"torch": staticmethod(torch_), "rounding": (8, 4)}
    return operator(type(name, (Increasing,), {**fields, "name": name}))


def on(*waivers, name="Tanh"):
    return Waivers({name: waivers})


def said(spec, runtimes=BUNDLED, wanted=8, waivers=NONE):
    return check_operator(spec, random.Random(0), wanted, runtimes, waivers, ["forward"])


def test_the_answers_of_all_implementations_are_counted():
    found = said(spec_of(torch.tanh))
    assert found.answers[EVALUATOR]["agrees"] == found.forward == 8
    assert found.answers[BODY]["unable"] == 8
    assert found.ok


def test_a_function_body_is_a_reference_implementation():
    found = said(spec_of(torch.nn.functional.softplus, name="Softplus"))
    assert found.answers[BODY]["agrees"] > 0 and found.ok


@pytest.mark.parametrize(
    "scope",
    [
        {},
        {"dtypes": (DType.FLOAT64,)},
        {"where": lambda op, x: x.rank == 2},
        {"below": 14},
    ],
)
def test_what_does_not_show_has_no_example(scope):
    waiver = reference("is wrong", "Tanh-13", **scope)
    given = spec_of(torch.tanh), waiver, random.Random(0), on(waiver)
    assert example_of(*given, search=50) is None


def test_a_waiver_without_an_example_is_a_problem(monkeypatch):
    monkeypatch.setattr("nnfuzz.check.operators.example_of", lambda *given: None)
    waivers = on(reference("is wrong", "Tanh-13"))
    (found,) = check_operators([spec_of(torch.tanh)], 0, 2, waivers=waivers)
    assert [text for text in found.problems if "nothing shows" in text]


def test_the_first_of_two_waivers_does_not_show_the_second():
    always, never = (reference(claim, "Tanh-13") for claim in ("is wrong", "is just as wrong"))
    waivers = on(always, never)
    assert example_of(spec_of(torch.sin), never, random.Random(0), waivers, search=50) is None


def test_a_backend_may_differ():
    def wrong(model, arrays):
        return [np.zeros_like(a) for a in arrays]

    found = said(spec_of(torch.tanh), {**BUNDLED, "toy": wrong}, 2)
    assert found.answers["toy"]["differs"] and found.ok
    alone = said(spec_of(torch.tanh), {"toy": wrong}, 2)
    assert not alone.ok and "(toy)" in alone.problems[0]


def test_a_difference_that_is_waived_is_counted():
    waiver = Waiver("toy", "is wrong", "Tanh-13")
    runtimes = {**BUNDLED, "toy": lambda model, arrays: []}
    found = said(spec_of(torch.tanh), runtimes, 2, on(waiver))
    assert found.waived[waiver] == found.answers["toy"]["waived"] > 0 and found.ok


def test_problems_are_listed_once_and_not_without_end():
    report = CheckReport("Add")
    assert report.ok and report.refused_share == 0
    for number in range(2 * MOST_PROBLEMS):
        report.problem(f"problem {number // 2}")
    report.problem("one more")
    assert not report.ok and len(report.problems) == MOST_PROBLEMS


def test_lines_say_problems_examples_and_waivers():
    waiver = Waiver("toy", "is wrong", "Mul-13", known="toy#1")
    report = CheckReport("Add", accepted=4, refused=1, problems=["wrong"], example="refused: Add()")
    assert report.refused_share == 0.25
    shown = CheckReport("Mul", examples={waiver: ["Mul() on []"]})
    assert list(listing([report, shown])) == [
        "Add: wrong",
        "Add: refused: Add()",
        "Mul: toy is wrong (0 times here)",
        "    decided by Mul-13; known as toy#1",
        "    Mul() on []",
    ]


def test_the_table_has_a_row_for_each_operator():
    answers = {"toy": Counter(agrees=5, differs=2, unable=1)}
    reports = [CheckReport("Add", accepted=4, refused=1, answers=answers), CheckReport("Mul")]
    table = report_table(reports)
    assert len(table.columns) == len(COUNTS) + 3 and table.row_count == 2
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    assert "1 (25%)" in capture.get() and "5 of 7" in capture.get()
