"""Reference implementations are asked, counted, and believed unless a waiver speaks of them."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from nnfuzz.check.operators import check_operator, check_operators
from nnfuzz.check.questions import example_of
from nnfuzz.check.runtimes import BODY, BUNDLED, EVALUATOR
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.families.elementwise import Increasing
from nnfuzz.operators.operator import operator
from nnfuzz.operators.waiver import NONE, Waiver, Waivers, reference


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
