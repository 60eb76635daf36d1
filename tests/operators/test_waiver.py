"""Waivers cover the differences that they declare."""

from __future__ import annotations

import random

import torch

from nnfuzz.check.arbitration import example_of, weigh
from nnfuzz.check.runtimes import (
    EVALUATOR,
)
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.waiver import Waiver, body, reference
from tests.check.test_arbitration import on, said, spec_of


def test_a_difference_that_nobody_declares_is_a_problem():
    found = said(spec_of(torch.sin), wanted=2)
    assert found.agreed(EVALUATOR) < found.drawn == found.answers[EVALUATOR].total()
    (text, *_) = found.problems()
    assert "elements differ" in text and EVALUATOR in text


def test_a_difference_that_is_declared_is_none():
    waiver = reference("computes something else", "Tanh-13: not at all")
    found = weigh(spec_of(torch.sin), 0, 2, on(waiver))
    assert found.waived[waiver] > 0 and not found.unexplained and not list(found.problems())
    assert found.settled[waiver] == 0
    question, text = found.examples[waiver]
    assert question.size <= 3 and "elements differ" in text


def test_a_waiver_covers_what_it_says():
    narrow = reference("is wrong", "Tanh-13", dtypes=(DType.FLOAT64,), below=14)
    waivers = on(narrow, body("is no better", "Tanh-13"))
    question, _ = example_of(spec_of(torch.sin), narrow, random.Random(0), waivers)
    (type_,) = question.instance.types
    assert type_.dtype is DType.FLOAT64 and question.opset == 13
    op = question.instance.op
    assert waivers.covering(op, 14, [type_]) == [waivers.of("Tanh")[1]]
    assert waivers.covering(op, 13, [type_.with_dtype(DType.FLOAT32)]) == [waivers.of("Tanh")[1]]


def test_a_waiver_names_any_implementation():
    waiver = Waiver("toy", "is wrong", "Tanh-13")
    assert weigh(spec_of(torch.tanh), 0, 2, on(waiver)).examples == {}
