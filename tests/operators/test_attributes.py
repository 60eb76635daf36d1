"""Attributes that hold bodies, as JSON and as text."""

from __future__ import annotations

import json

from nnfuzz.opspecs.bodies import WILD

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.attributes import encode, readable
from nnfuzz.operators.body import Body
from tests.operators.test_body import LOOKUP, drawn


def test_bodies_survive_json():
    for body, _ in drawn(40, DType.INT32, WILD):
        again = Body.from_json(json.loads(json.dumps(encode(body))), LOOKUP)
        assert again == body and hash(again) == hash(body)
        assert body.shorter() and all(other != body for other in body.shorter())


def test_a_body_reads_like_a_program():
    steps = [["Add", {}, [0, 1]], ["Clip", {"min": None, "max": 0.5}, [2]]]
    body = {"arguments": 2, "steps": steps, "outputs": [3, 0]}
    assert readable(body) == "(a, b) {c = Add(a, b); d = Clip(c, max=0.5); d, a}"
