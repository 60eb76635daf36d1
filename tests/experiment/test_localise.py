"""The planted rule is found: its level, its pass, its operator, its party."""

from __future__ import annotations

from dataclasses import replace

import onnx
import pytest

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.backend.target import Target
from nnfuzz.experiment.compilers import examine
from nnfuzz.experiment.localise import _invalid, _Search, localise
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.producer import Producer
from nnfuzz.triage.signature import failures
from tests.reduction.conftest import CONFIG, PLUGIN, first_failing, has_pattern, planted
from tests.triage.test_signature import failed


@pytest.fixture(scope="module")
def registry():
    return BackendRegistry.discover([PLUGIN])


@pytest.fixture(scope="module")
def producer():
    return Producer(2, CONFIG)


class Bench:
    """What ProducerClient does, in this process."""

    def __init__(self, producer):
        self.expose, self.lift, self.lower = producer.expose, producer.lift, producer.lower
        self._producer = producer

    def judge(self, case, outcomes, names=(), habits=()):
        return self._producer.judge(case, {o.target: o.outputs for o in outcomes if o.outputs})

    def reference(self, case):
        return Outcome(OutcomeKind.UNSUPPORTED, Stage.EXECUTE, Target("onnx.reference"))


@pytest.fixture(scope="module")
def located(registry, producer):
    """Localises the first failing test case under options of the planted backend."""

    def run(**options):
        with BackendRunner(registry.spec("planted", options), registry) as runner:
            for index in range(200):
                case = producer.produce(index)
                if isinstance(case, TestCase) and has_pattern(case, "float32"):
                    seen = examine(case, runner, Bench(producer))
                    failure = planted(seen.failures)
                    if failure is not None:
                        found = localise(case, failure, runner, Bench(producer))
                        return found, case
        raise AssertionError("no test case fails")

    return run


def test_a_wrong_pass_is_named_with_its_operator(located):
    found, case = located()
    assert found.levels == {"O0": "ok", "O1": "fails"}
    assert (found.level, found.party) == ("O1", "optimiser (FuseMulAdd)")
    assert found.passes == ("FuseMulAdd",)
    assert [(row.without, row.answer) for row in found.ablation] == [
        (("Sweep",), "fails"),
        (("FuseMulAdd",), "ok"),
    ]
    producer = {name: node.op for node in case.graph.nodes for name in node.outputs}
    assert found.operator == producer[found.value] == "Mul"
    assert any("O1 does not fail without FuseMulAdd" in sentence for sentence in found.evidence)


@pytest.mark.parametrize(
    ("needed", "accused"),
    [
        ([{"Fold"}, {"Fuse"}], ("Fuse",)),
        ([{"Fold", "Fuse"}], ("Fold", "Fuse")),
        ([{"Fold"}], ("Fold",)),
        ([{"Other"}], ()),
    ],
)
def test_a_pass_that_only_enables_the_wrong_one_is_not_accused(needed, accused):
    search = _Search(None, None, None, None)
    search.cured = lambda level, without: any(one <= {*without} for one in needed)
    assert search.culprits("O1", ["Tidy", "Fold", "Fuse", "Layout"]) == accused


def test_what_fails_at_every_level_is_no_optimiser(located):
    found, _ = located(where="always")
    assert set(found.levels.values()) == {"fails"}
    assert found.party == "importer or kernel"
    assert found.operator == "Mul"
    assert not found.ablation


def test_an_exception_is_localised_without_values(located):
    found, _ = located(raises=True)
    assert found.party == "optimiser (FuseMulAdd)"
    assert not found.operator


def test_an_exporter_is_accused_of_a_model_that_is_none(located):
    _, case = located(raises=True)
    model = onnx.load_model_from_string(case.model)
    model.graph.node[-1].op_type = "NoSuchOperator"
    bad = replace(case, model=model.SerializeToString(), exporter="torchscript")
    refused = failures([failed("O0")])[0]
    assert "NoSuchOperator" in _invalid(bad, refused)
    assert not _invalid(replace(bad, exporter="direct"), refused)
    assert not _invalid(replace(case, exporter="torchscript"), refused)


def test_a_failure_that_is_gone_has_no_place(registry, producer):
    options = {"where": "never"}
    case = first_failing(producer, registry)
    with BackendRunner(registry.spec("planted", {}), registry) as runner:
        failure = planted(examine(case, runner, Bench(producer)).failures)
    with BackendRunner(registry.spec("planted", options), registry) as runner:
        assert localise(case, failure, runner, Bench(producer)) is None


def test_wrong_logic_is_wrong_in_wider_dtypes_too(located):
    found, case = located(where="always")
    dtypes = {dtype for dtype in case.graph.dtypes.values()}
    said = [sentence for sentence in found.evidence if sentence.startswith("with float")]
    assert bool(said) == bool(dtypes & {"float16", "bfloat16", "float32"})
    assert all(sentence.endswith("the result is wrong as well") for sentence in said)
