"""Models with a fault: every kind can be made, by seed and index alone, and says what it breaks."""

import random

import onnx
import pytest

from nnfuzz.ir.support_key import SupportKey
from nnfuzz.sandbox.record import pack, unpack
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from nnfuzz.vary.faults.catalogue import KINDS, carriers, disrupted
from nnfuzz.vary.faults.fault import NODES, SIZES

CONFIG = CaseConfig(
    exporter="direct", opset=20, nodes=NODES, motifs=0, dynamic=0, invalid=True, sizes=SIZES
)


@pytest.fixture(scope="module")
def producer():
    return Producer(5, CONFIG)


@pytest.fixture(scope="module")
def cases(producer):
    """One of each kind."""
    return [producer.produce(index) for index in range(len(KINDS))]


def test_every_kind_has_a_clause_and_a_sentence():
    for kind in KINDS.values():
        assert kind.text.endswith(".") and ":" in kind.clause, kind.name
        assert carriers(kind) is None or carriers(kind), kind.name


def test_the_kinds_take_turns(cases):
    assert all(isinstance(case, TestCase) for case in cases), cases
    assert {case.fault.kind for case in cases} == set(KINDS)
    assert all(case.fault.what and not case.expected for case in cases)


def test_a_test_case_is_a_function_of_seed_and_index(producer, cases):
    for index in (3, 9, 16, 18):
        again = producer.produce(index)
        assert again.digest() == cases[index].digest()
    assert producer.produce(9 + len(KINDS)).model != cases[9].model


def test_a_case_survives_its_way_through_a_pipe(cases):
    for case in cases[::9]:
        assert unpack(TestCase, *pack(TestCase, case)).fault == case.fault


def test_what_the_checker_finds_is_not_there_before(producer):
    """The model is valid without the fault: the checker takes it, and refuses it afterwards."""
    key = next(k for k in producer.signatures()["direct"] if k.startswith("Concat(float32"))
    from nnfuzz.testcase.identity import Probe

    base = producer.made(Probe(SupportKey.parse(f"direct:{key}"), 1))
    onnx.checker.check_model(base.model, full_check=True)
    for name in ("undefined-name", "unknown-operator", "duplicate-name"):
        found = disrupted(KINDS[name], base.model, base.inputs, random.Random(name))
        with pytest.raises((onnx.checker.ValidationError, onnx.shape_inference.InferenceError)):
            onnx.checker.check_model(found.model, full_check=True)


def test_what_a_fault_needs_is_in_the_model_without_it(cases):
    """What a compiler answers to a sparse tensor is no answer to the fault."""
    plain = {c.fault.kind: onnx.load_model_from_string(c.plain) for c in cases}
    for case in cases:
        constants = {t.name for t in plain[case.fault.kind].graph.initializer}
        read = {value.name for value in plain[case.fault.kind].graph.input} - constants
        assert case.plain_inputs.keys() == read, case.fault.kind
    for model in plain.values():
        onnx.checker.check_model(model)  # its inference of shapes knows no sparse tensors
    assert plain["broken-sparse-tensor"].graph.sparse_initializer
