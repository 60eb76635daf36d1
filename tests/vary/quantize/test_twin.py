"""Quantised twins: valid, deterministic, comparable, and near to the original."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest

import nnfuzz
from nnfuzz.vary.quantize.twin import Quantised

COUNT, LABEL = 24, f"{Quantised.name}:"


@pytest.fixture(scope="module")
def twins():
    return made(1.0)


@pytest.fixture(scope="module")
def plain():
    return made(0.0)


def made(share: float, seed: int = 3) -> dict[int, nnfuzz.TestCase]:
    models = nnfuzz.Generator(seed, motifs=1.0, domains=("com.microsoft",), quantize=share)
    found = {}
    for index in range(COUNT):
        try:
            found[index] = models[index]
        except nnfuzz.NoTestCase as error:
            assert error.why.stage == "inputs", error.why.traceback
    return found


def styles(cases: dict[int, nnfuzz.TestCase]) -> dict[int, str]:
    """The forms of the twins among test cases."""
    pairs = ((i, m) for i, case in cases.items() for m in case.variations if m.startswith(LABEL))
    return dict(pairs)


def has_floats(case: nnfuzz.TestCase) -> bool:
    return any(value.dtype == "float32" for value in case.graph.values)


def test_most_graphs_have_a_twin_that_onnx_admits(twins):
    floats = {i for i, case in twins.items() if case.opset >= 13 and has_floats(case)}
    assert len(floats & styles(twins).keys()) >= 0.7 * len(floats)
    assert {f"{LABEL}pairs", f"{LABEL}integers"} <= set(styles(twins).values())
    for case in twins.values():
        onnx.checker.check_model(onnx.load_from_string(case.model), full_check=True)


def test_the_operators_of_every_form_occur(twins):
    found = Counter(op for i in styles(twins) for op in twins[i].graph.operators)
    assert found["QuantizeLinear"] and found["DequantizeLinear"]
    assert any("QLinear" in name for name in found)


def test_the_share_decides_which_graphs_and_nothing_else(twins, plain):
    some = made(0.5)
    assert not styles(plain) and 0 < len(styles(some)) < len(styles(twins))
    for index, case in some.items():
        other = twins if index in styles(some) else plain
        assert case.digest() == other[index].digest()


def test_outputs_can_be_compared(twins):
    oracle = nnfuzz.Oracle()
    found = [b for i in styles(twins) for b in oracle.envelope(twins[i]).values()]
    assert sum(bounds.comparable.all() for bounds in found) >= 0.8 * len(found)


def test_the_inputs_are_those_of_the_original(twins, plain):
    for index in styles(twins).keys() & plain.keys():
        for name, given in twins[index].inputs.items():
            assert given.tobytes() == plain[index].inputs[name].tobytes()


def test_operators_that_are_not_there_are_not_used():
    models = nnfuzz.Generator(3, quantize=1.0, exclude=("DequantizeLinear", "QLinearConv"))
    for index in range(6):
        assert "DequantizeLinear" not in models[index].graph.operators


@pytest.mark.parametrize(
    "exporter", ["torchscript", pytest.param("dynamo", marks=pytest.mark.slow)]
)
def test_exporters_of_pytorch_write_twins(exporter):
    models = nnfuzz.Generator(5, nodes=4, exporter=exporter, quantize=1.0, operators=USUAL)
    cases = [models[index] for index in range(4)]
    assert any(m.startswith(LABEL) for case in cases for m in case.variations)


USUAL = ("Conv", "Relu", "Add", "QuantizeLinear", "DequantizeLinear")
