"""The operators that coverage is measured against."""

from __future__ import annotations

from nnfuzz.metrics.tally import DEGREES
from nnfuzz.metrics.vocabulary import of_onnx, of_specs
from nnfuzz.operators.registry import OpRegistry
from tests.metrics.hand_made import VOCABULARY


def test_the_operators_of_onnx():
    known = of_onnx()
    assert len(known) > 180 and known.degrees["Max"] == 5 and "Constant" not in known.degrees
    assert known.with_(["mine.Op"]).degrees["mine.Op"] == 1


def test_the_operators_of_specs():
    specs = OpRegistry.load().select(["Add", "Concat"]).specs()
    low, high = next(spec for spec in specs if spec.name == "Concat").arity()
    assert of_specs(specs).degrees == {"Add": 1, "Concat": min(high, DEGREES) - low + 1}


def test_a_vocabulary_of_some_operators():
    assert VOCABULARY.only(["Concat", "New"]).degrees == {"Concat": 5, "New": 1}
    assert len(VOCABULARY.with_(["New"])) == len(VOCABULARY) + 1
