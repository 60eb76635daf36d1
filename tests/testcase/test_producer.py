"""Producers, their workers, and seed models."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from nnfuzz.backend.target import Target
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.compare.flip import State, blame
from nnfuzz.corpus.producers import Producers
from nnfuzz.generate.catalog import NothingLeft
from nnfuzz.ir.features import features
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.support_key import SupportKey, edge_keys
from nnfuzz.materialize.importing import ImportedModel
from nnfuzz.sandbox.record import pack, unpack
from nnfuzz.testcase.bench import CaseBench
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.client import ProducerSettingsError
from nnfuzz.testcase.foreign import case_of_model
from nnfuzz.testcase.identity import Numbered, Probe
from nnfuzz.testcase.jobs import ComputeReference
from nnfuzz.testcase.producer import Producer, ProducerService
from nnfuzz.testcase.settings import digest, seed_files
from nnfuzz.testcase.vocabulary import SCARCE, _facts
from scripts.check.determinism import configurations, digests, digests_elsewhere
from tests.corpus.test_generate import CONFIG as CORPUS
from tests.corpus.test_generate import TESTS
from tests.testcase.conftest import CONFIG


def test_settings_that_give_nothing_are_refused():
    config = as_json(replace(CORPUS, operators=("Ad",)))
    with Producers(0, config, 2) as producers, pytest.raises(ProducerSettingsError, match="Add"):
        next(producers.entries(TESTS))


LOW, HIGH = (Target("toy", pipeline=level, form="torchscript") for level in ("O0", "O3"))


def accused(verdict):
    states = {t: State.WRONG if wrong else State.RIGHT for t, wrong in verdict.mismatches.items()}
    return blame(states, "toy", levels=("O0", "O3")).coordinate


def outputs(case: TestCase) -> dict[str, np.ndarray]:
    return {name: array.copy() for name, array in case.expected.items()}


def test_a_case_depends_on_nothing_but_seed_and_index():
    """Cases of every engine and variation: here, and backwards under another hash seed."""
    slow_to_import = {"torchscript", "dynamo"}
    names = [name for name in configurations() if name not in slow_to_import]
    assert digests(names, 9, 2) == digests_elsewhere(77, names, 9, 2, backwards=True)


def test_another_seed_gives_another_case(producer, case):
    assert Producer(4, CONFIG).produce(case.id.index).graph != case.graph


def test_models_pass_the_checker_and_carry_their_weights(case):
    model = onnx.load_from_string(case.model)
    onnx.checker.check_model(model, full_check=True)
    assert set(case.weights) <= {i.name for i in model.graph.initializer}
    assert [i.name for i in model.graph.input] == list(case.inputs)


def test_a_case_survives_the_wire(case):
    copy = unpack(TestCase, *pack(TestCase, case))
    assert copy.graph == case.graph and copy.model == case.model
    assert all(np.array_equal(copy.expected[k], v) for k, v in case.expected.items())


def test_configurations_survive_json():
    one = CaseConfig(operators=("Add", "Mul"), refused=("Add(int8)->int8",), opset=17)
    several = one.written_by({"direct": 23, "dynamo": 18})
    assert several.exporters == ("direct", "dynamo")
    for config in (one, several):
        assert CaseConfig.from_json(json.loads(json.dumps(as_json(config)))) == config


def test_the_judge_may_look_at_some_outputs_only(producer):
    case = next(c for c in map(producer.produce, range(20)) if len(c.expected) > 1)
    name = min(case.expected)
    right = {name: case.expected[name]}
    wrong = {name: np.zeros(7, np.int8)}
    verdict = producer.judge(case, {LOW: right, HIGH: wrong}, [name])
    assert list(verdict.comparable) == [name]
    assert accused(verdict) == "pipeline"


def test_the_judge_accuses_the_level_that_is_wrong(producer, case):
    wrong = outputs(case)
    name = next(iter(wrong))
    wrong[name] = (
        ~wrong[name] if wrong[name].dtype == bool else wrong[name] + wrong[name].dtype.type(64)
    )
    verdict = producer.judge(case, {LOW: outputs(case), HIGH: wrong})
    assert not verdict.mismatches[LOW]
    assert verdict.mismatches[HIGH]
    assert accused(verdict) == "pipeline"


def test_the_direct_form_acquits_the_backend(producer, case):
    assert producer.lower(case).model == case.model
    wrong = {k: np.zeros((7, 7), v.dtype) for k, v in case.expected.items()}
    direct = replace(LOW, form="direct")
    verdict = producer.judge(case, {LOW: wrong, direct: outputs(case)})
    assert accused(verdict) == "form"
    assert accused(producer.judge(case, {LOW: wrong, direct: wrong})) == "compiler"


def test_what_onnx_reference_contradicts_accuses_nobody():
    """But where it is known to be wrong itself, or computes what an exporter wrote."""
    here = CaseBench(CaseConfig())

    def wrong(node: str, form: str = "direct") -> bool:
        head = '<ir_version: 9, opset_import: ["" : 20]>'
        model = onnx.parser.parse_model(f"{head} m (float[2] x) => (float[2] y) {{ y = {node} }}")
        case = case_of_model(model, here.registry, {"x": np.array([-1, 2], np.float32)})
        both = {"y": case.expected["y"] + 1}
        arbiter = Target("onnx.reference", form=form)
        verdict = here.judge(case, {LOW: both, arbiter: both})
        assert not verdict.ok and bool(verdict.contradictions) != bool(verdict.mismatches[LOW])
        if "p = 1" in node:
            assert "LpNormalization-22: output = input / Lp_norm" in verdict.waived["y"]
        return bool(verdict.mismatches[LOW])

    assert not wrong("Relu(x)")
    assert wrong("LpNormalization<p = 1>(x)") and not wrong("LpNormalization<p = 2>(x)")
    assert wrong("Relu(x)", form="torchscript") and not wrong("Relu(x)", form="direct+rewritten")


def test_a_probe_is_the_operator_alone(producer):
    key = next(k for k in producer.signatures()["direct"] if k.startswith("Softmax(float32)"))
    case = producer.made(Probe(SupportKey.parse(f"direct:{key}"), 0))
    assert [n.op for n in case.graph.nodes] == ["Softmax"]


def test_what_the_exporter_does_not_implement_is_no_failure(monkeypatch):
    import torch

    producer = Producer(0, CaseConfig(nodes=1, operators=("Sin",), exporter="torchscript"))
    spec = producer.registry.get("Sin")
    monkeypatch.setattr(spec, "torch", staticmethod(torch.digamma))
    failed = next(f for f in map(producer.produce, range(9)) if isinstance(f, NotProduced))
    assert failed.stage == "export"
    assert failed.unsupported


MIXED = replace(CONFIG, refused=("direct:Relu(float32)->float32", "Neg(int8)->int8")).written_by(
    {"direct": 23, "torchscript": 18}
)


@pytest.mark.slow
def test_exporters_take_turns_by_index():
    producer = Producer(3, MIXED)
    found = [case for case in map(producer.produce, range(20)) if isinstance(case, TestCase)]
    assert {(case.exporter, case.opset) for case in found} == {("direct", 23), ("torchscript", 18)}
    assert [producer.generator_for(i).config.exporter for i in range(3)] == [
        *("torchscript", "direct", "torchscript")  # of seed 3
    ]
    for case in found:
        assert case.generated_for == case.exporter
        assert onnx.load_from_string(case.model).opset_import[0].version == case.opset
        assert producer.lower(case)
        alone = Producer(3, MIXED.only(case.generated_for)).produce(case.id.index)
        assert alone.model == case.model and alone.graph == case.graph


DRAWN = replace(MIXED, opsets={"direct": tuple(range(13, 27)), "torchscript": tuple(range(13, 21))})


def test_every_index_has_an_opset_of_its_own():
    producer = Producer(3, DRAWN)
    names = Counter(producer.generator_for(index).config.writer for index in range(400))
    assert set(names) == {name for e in DRAWN.exporters for name in DRAWN.writers(e)}
    assert max(names.values()) < 3 * 400 / (2 * 8)  # none is preferred
    for case in filter(lambda c: isinstance(c, TestCase), map(producer.produce, range(12))):
        (imported,) = onnx.load_from_string(case.model).opset_import
        assert imported.version == case.opset and case.generated_for.endswith(f"@{case.opset}")
        assert all(producer.registry.get(node.op).since <= case.opset for node in case.graph.nodes)
        alone = DRAWN.only(case.generated_for)
        assert alone.newest == 26 and Producer(3, alone).produce(case.id.index).model == case.model


def test_signatures_are_named_after_the_newest_opset_of_their_version():
    found = Producer(3, DRAWN).signatures()
    having = [name for name, keys in found.items() if "Acos(float32)->float32" in keys]
    assert having == ["direct@26", "direct@21", "torchscript@20"]
    key = SupportKey.parse("direct@21:Acos(float32)->float32")
    case = Producer(3, DRAWN).made(Probe(key, 0))
    assert case.opset == 21 and case.generated_for == "direct@21"


def test_a_version_that_is_refused_is_left_out_where_it_holds():
    refused = replace(DRAWN, refused=("direct@21:Acos(float32)->float32",))
    producer = Producer(3, refused)
    keys = {
        opset: producer._generator(f"direct@{opset}").catalog.signature_keys()
        for opset in (15, 21, 22)
    }
    assert [o for o, found in keys.items() if "Acos(float32)->float32" in found] == [22]


def test_operators_that_are_asked_for_decide_on_the_opsets():
    producer = Producer(3, replace(DRAWN, operators=("Attention",), others=()))
    opsets = {producer.generator_for(index).config.opset for index in range(40)}
    assert opsets == {23, 24, 25, 26}


def test_an_opset_is_the_likelier_the_more_there_is_at_it_alone():
    weights = Producer(3, DRAWN)._drawn["direct"]
    assert weights["direct@24"] > 2 * weights["direct@15"]  # Attention-24 and others are new there
    producer = Producer(3, replace(DRAWN, operators=("Acos",), others=()))
    shares = {name: round(weight, 3) for name, weight in producer._drawn["direct"].items()}
    assert shares["direct@26"] == 0.2 and shares["direct@13"] == round(1 / 9, 3)
    names = Counter(producer.generator_for(index).config.opset >= 22 for index in range(400))
    assert 160 < names[True] < 240


def test_operators_that_few_opsets_have_are_the_more_frequent_there():
    weights = Producer(3, DRAWN)._generator("direct@26").generate.operator_weights
    assert "Relu" not in weights
    assert weights["AffineGrid"] == 14 / 7 and weights["BitCast"] == SCARCE
    assert not Producer(3, CONFIG)._generator("direct").generate.operator_weights


def test_refusals_may_concern_one_exporter():
    assert MIXED.only("direct").refused == ("Relu(float32)->float32", "Neg(int8)->int8")
    assert MIXED.only("torchscript").refused == ("Neg(int8)->int8",)
    signatures = Producer(3, MIXED).signatures()
    assert "Relu(float32)->float32" in set(signatures["torchscript"]) - set(signatures["direct"])
    assert "Attention" in {key.partition("(")[0] for key in signatures["direct"]}


def test_an_exporter_that_writes_none_of_the_operators_is_left_out():
    only = replace(MIXED, operators=("Attention", "LSTM"), nodes=2)
    producer = Producer(3, only)
    assert list(producer.signatures()) == ["direct"]
    assert producer.notes[0].startswith("exporter torchscript is left out: no operator is left")
    assert {producer.generator_for(index).config.exporter for index in range(9)} == {"direct"}
    with pytest.raises(NothingLeft, match="exporter torchscript: no operator is left"):
        Producer(3, only.only("torchscript"))


def test_operators_of_which_nothing_is_left_are_told():
    producer = Producer(3, CaseConfig(operators=("And", "Add"), dtypes={"bool": None}))
    assert producer.notes == ("And: no signature is left with these settings (nnfuzz ops)",)
    assert Producer(3, CaseConfig(operators=("Add",))).notes == ()


def test_unknown_operators_are_named():
    with pytest.raises(KeyError, match="did you mean Softmax"):
        Producer(0, CaseConfig(operators=("Sofmax",)))


def test_most_tests_keep_away_from_what_is_avoided_and_some_do_not():
    avoid = ("Relu(float32)->float32", "Abs->Abs(float32)")
    config = CaseConfig(
        nodes=8,
        exporter="direct",
        operators=("Relu", "Abs", "Neg"),
        dtypes=dict.fromkeys(("float64", "float16", "int8", "int16", "int32", "int64"), 1e-9),
        avoid=avoid,
        unrestrained=0.2,
    )
    producer = Producer(5, config)
    free = {i for i in range(60) if not config.restrains(5, i)}
    assert 5 <= len(free) <= 20
    seen = {}
    for index in range(60):
        made = producer.produce(index)
        assert isinstance(made, TestCase)
        relu = ("Relu", "float32") in features(made.graph).operator_dtypes()
        seen[index] = relu or avoid[1] in edge_keys(made.graph)
    assert not any(seen[index] for index in set(seen) - free)
    assert sum(seen[index] for index in free) > len(free) / 2
    assert avoid[0] in producer.signatures()["direct"]  # probes of it stay possible
    again = Producer(5, CaseConfig.from_json(json.loads(json.dumps(as_json(config)))))
    index = min(free)
    assert again.produce(index).model == producer.produce(index).model


def test_mutated_cases_are_a_function_of_the_index_alone():
    config = replace(CONFIG, engine="mutate")
    forwards, backwards = Producer(3, config), Producer(3, config)
    found = {i: backwards.produce(i).digest() for i in reversed(range(20))}
    assert found == {i: forwards.produce(i).digest() for i in range(20)}
    parent, child = (forwards.produce(i).graph for i in (8, 9))
    assert {n.outputs for n in parent.nodes} & {n.outputs for n in child.nodes}


def test_an_exporter_whose_process_has_died_has_failed():
    died = "SIGFPE", "Fatal Python error: Floating point exception"
    failed = Producer(0, CaseConfig(exporter="torchscript")).made(Numbered(0, 1), died=died)
    assert isinstance(failed, NotProduced) and failed.stage == "export" and failed.graph
    assert "ExporterDied: the process died of SIGFPE" in failed.message
    assert died[1] in failed.traceback and not failed.unsupported


def test_a_model_that_nnfuzz_writes_itself_is_no_exporters():
    died = "SIGFPE", ""
    made = Producer(0, CaseConfig(exporter="direct")).made(Numbered(0, 1), died=died)
    assert isinstance(made, TestCase)


def test_the_reference_evaluator_computes_what_is_expected(case):
    service = ProducerService(0, as_json(CaseConfig(exporter="direct")))
    job = ComputeReference(case)
    outcome = job.read_answer(*service.handle(*job.to_frame(), lambda stage: None))
    assert outcome.target.form == case.exporter
    assert outcome.outputs is None or outcome.outputs.keys() == case.expected.keys()


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
