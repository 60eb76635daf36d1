"""Test cases that start from seed models."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import parser

from nnfuzz.backend.target import Target
from nnfuzz.base.reading import Unreadable
from nnfuzz.ir.graph import Graph
from nnfuzz.materialize.importing import ImportedModel
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.producer import Producer
from nnfuzz.testcase.settings import digest, seed_files
from nnfuzz.testcase.vocabulary import _facts

BLOCK = """<ir_version: 8, opset_import: ["" : 17]>
    block (float[N, 2, 6] x) => (float[N, 3, K] y) <float[3, 2, 3] w> {
        s = Sin(x)
        c = Conv<auto_pad = "SAME_LOWER", strides = [9]>(s, w)
        r = Sigmoid(c)
        y = Softplus(r)
    }"""
INSERTED = ("Add", "Tanh", "Relu", "Mul", "Transpose")

TOY = Target("toy", pipeline="O0")


@pytest.fixture
def folder(tmp_path) -> Path:
    model = parser.parse_model(BLOCK)
    values = [0.25 * i - 1 for i in range(18)]
    model.graph.initializer.append(onnx.helper.make_tensor("w", 1, (3, 2, 3), values))
    onnx.save(model, tmp_path / "block.onnx")
    (tmp_path / "broken.onnx").write_text("no model")
    return tmp_path


def config(folder: Path, **given) -> CaseConfig:
    files = seed_files(folder)
    fields = {"exporter": "direct", "nodes": 5, "operators": INSERTED, **given}
    return CaseConfig(
        seed_models=tuple(map(str, files)), seed_digest=digest(files), motifs=0, **fields
    )


def test_models_grow_around_and_inside_of_a_seed(folder):
    producer = Producer(1, config(folder))
    cases = [producer.produce(i) for i in range(12)]
    found = [case for case in cases if isinstance(case, TestCase)]
    assert len(found) >= 10, cases
    inside = 0
    for case in found:
        model = onnx.load_from_string(case.model)
        onnx.checker.check_model(model, full_check=True)
        kinds = [node.op_type for node in model.graph.node]
        assert {"Sin", "Conv", "Sigmoid", "Softplus"} <= set(kinds)
        assert len(case.graph.nodes) == 9
        makers = {o: n.op for n in case.graph.nodes for o in n.outputs}
        read = {n.op: makers.get(n.inputs[0]) for n in case.graph.nodes}
        seed_order = ("Sin", "Opaque", "Sigmoid", "Softplus")
        inside += any(read[b] != a for a, b in itertools.pairwise(seed_order))
    assert inside, "no operator was inserted inside"
    again = Producer(1, config(folder)).produce(3)
    assert isinstance(again, TestCase)
    assert again.model == cases[3].model


def test_notes_tell_what_is_left_out(folder):
    notes = Producer(1, config(folder)).notes
    assert any("broken.onnx is left out" in note for note in notes)
    assert any("1 of 4 nodes have no spec (Conv)" in note for note in notes)


def test_seeds_are_read_once_for_many_configurations(folder, monkeypatch):
    settings = config(folder)
    producer = Producer(1, settings)
    fresh = Producer(1, replace(settings, refused=("Tanh(float32)->float32",)))

    def unread(*arguments):
        raise AssertionError("a seed model is read again")

    monkeypatch.setattr("nnfuzz.materialize.importing.import_onnx", unread)
    (folder / "block.onnx").unlink()
    producer.configure(fresh._generator("direct").config)
    cases = [(producer.produce(i), fresh.produce(i)) for i in range(4)]
    for case, other in cases:
        assert type(case) is type(other)
        assert isinstance(case, NotProduced) or case.model == other.model


def test_what_is_opaque_is_run_but_not_compared(folder):
    producer = Producer(1, config(folder))
    case = next(c for c in map(producer.produce, range(9)) if isinstance(c, TestCase))
    wrong = {name: array + 1 for name, array in case.expected.items()}
    verdict = producer.judge(case, {TOY: wrong})
    graph = producer.load(case)
    masked = {name for name, share in verdict.comparable.items() if share == 0}
    assert masked
    assert masked <= {o for node in graph.nodes for o in node.outputs}
    assert not masked & {entry.output for entry in verdict.mismatches[TOY]}


def test_seeds_that_changed_or_cannot_be_read_are_refused(folder, tmp_path):
    settings = config(folder)
    (folder / "block.onnx").write_bytes(b"")
    with pytest.raises(Unreadable, match="changed since"):
        Producer(1, settings)
    with pytest.raises(Unreadable, match="no seed model can be read"):
        Producer(1, config(folder))
    with pytest.raises(Unreadable, match="does not exist"):
        seed_files(tmp_path / "nowhere")


def test_an_opaque_seed_needs_direct_emission(folder):
    with pytest.raises(Unreadable, match="--exporter direct"):
        Producer(1, config(folder, exporter="torchscript"))


def test_names_of_operators_that_are_no_text_are_read():
    """A protobuf of the C library gives bytes where a string is no UTF-8."""
    lost = ImportedModel(Graph(), {}, ((b"Re\xfflu", "no spec"), ("Foo", "no spec")))
    assert "2 nodes are left out" in next(_facts(lost))
