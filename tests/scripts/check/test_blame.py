"""The score of blame: which cases count for a fault, and that the real experiment is asked."""

from __future__ import annotations

from collections import Counter

import pytest
from rich.console import Console

from nnfuzz.experiment.blocking import BlockingExperiment
from scripts.check.blame import OPTIONS, PLUGIN, Tally, cases, judge, operators_of, planted

FAULTS = {fault.name: fault for fault in planted()}


def test_ten_faults_of_each_kind():
    kinds = Counter(fault.kind for fault in FAULTS.values())
    assert kinds == dict.fromkeys(("optimiser", "kernel", "importer", "exporter"), 10)
    assert {fault.coordinate for fault in FAULTS.values() if fault.kind == "kernel"} == {
        *("device", "release", "compiler")
    }


def test_a_fusion_needs_both_of_its_operators():
    assert operators_of("fuses_mul_add", ("Add",)) == ("Add", "Mul")
    assert operators_of("erf_kernel", ("Erf",)) == ("Erf",)


def test_what_an_exporter_writes_badly_meets_no_fault_of_the_compiler():
    """A Round that became a Floor did: the optimiser fails on Floor."""
    assert next(cases(FAULTS["export_confuses_round"], seed=0, each=1), None) is not None


@pytest.fixture(scope="module")
def run():
    with BlockingExperiment([f"blamed{o}" for o in OPTIONS], [str(PLUGIN)], repeats=0) as run:
        yield run


@pytest.mark.parametrize(
    "name",
    ["concat_in_reverse", "mean_on_gpu", "sigmoid_since_1_1", "gelu_unread", "export_confuses_neg"],
)
def test_the_experiment_blames_what_is_planted(run, name):
    fault, tally, console = FAULTS[name], Tally(), Console()
    for case in cases(fault, seed=0, each=1):
        judge(fault, case, run, tally, console)
    assert tally.met == {name}
    assert tally.all == tally.right > 0
