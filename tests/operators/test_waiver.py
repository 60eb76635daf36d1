"""Waivers cover the differences that they declare."""

from __future__ import annotations

import random

import torch

from nnfuzz.check.operators import check_operators
from nnfuzz.check.questions import example_of
from nnfuzz.check.runtimes import EVALUATOR
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.waiver import Waiver, body, reference
from tests.check.test_questions import on, said, spec_of


def test_a_difference_that_nobody_declares_is_a_problem():
    found = said(spec_of(torch.sin), wanted=2)
    assert found.answers[EVALUATOR]["differs"]
    assert any("elements differ" in text and EVALUATOR in text for text in found.problems)


def test_a_difference_that_is_declared_is_none():
    waiver = reference("computes something else", "Tanh-13: not at all")
    found = said(spec_of(torch.sin), wanted=2, waivers=on(waiver))
    assert found.waived[waiver] > 0
    assert not any("elements differ" in text for text in found.problems)
    question, text = example_of(spec_of(torch.sin), waiver, random.Random(0), on(waiver))
    assert "elements differ" in text and str(question) in question.lines(text)[0]


def test_a_waiver_covers_what_it_says():
    narrow = reference("is wrong", "Tanh-13", dtypes=(DType.FLOAT64,), below=14)
    waivers = on(narrow, body("is no better", "Tanh-13"))
    question, _ = example_of(spec_of(torch.sin), narrow, random.Random(0), waivers)
    (type_,) = question.instance.types
    assert type_.dtype is DType.FLOAT64 and question.opset < 14
    op = question.instance.op
    assert waivers.covering(op, 14, [type_]) == [waivers.of("Tanh")[1]]
    assert waivers.covering(op, 13, [type_.with_dtype(DType.FLOAT32)]) == [waivers.of("Tanh")[1]]


def test_a_waiver_names_any_implementation():
    waiver = Waiver("toy", "is wrong", "Tanh-13")
    (found,) = check_operators([spec_of(torch.tanh)], 0, 2, waivers=on(waiver))
    assert found.examples == {} and found.ok
