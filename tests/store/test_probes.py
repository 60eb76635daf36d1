"""Answers to probes in the store."""

from __future__ import annotations

from nnfuzz.feedback.support import ProbeAnswer, ProbeAnswers
from nnfuzz.ir.support_key import SupportKey


def test_answers_of_probes_come_back(store):
    ran, failed = map(SupportKey.parse, "kl")
    store.probes.add("toy", ran, 1, 0, {"O0": ProbeAnswer("ok")})
    store.probes.add("toy", failed, 0, 16, {"O0": ProbeAnswer("failing", "why")})
    answers = ProbeAnswers()
    store.probes.load(answers)
    assert answers.get("toy", failed, 0, ["O0"]) == ProbeAnswer("failing", "why")
    assert store.probes.before(0) == ["k"] and store.probes.before(16) == ["l"]
