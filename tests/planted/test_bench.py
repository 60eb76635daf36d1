"""The bench of planted bugs: its compiler is right at O0, its changes and its score work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.target import Target
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import Probe
from nnfuzz.testcase.producer import Producer
from tests.planted import bench as scoring
from tests.planted import plugin
from tests.planted.__main__ import main
from tests.planted.bench import Bench, recalls
from tests.planted.catalogue import LEGAL_VARIATIONS, PLANTED_BUGS
from tests.planted.program import Unsupported, load, run
from tests.planted.vocabulary import CONFIG

PLUGIN = Path(plugin.__file__)
COMMON = ("broadcast_operand_lost", "fused_operands_swapped", "copied_in_half")
TOLERANCE = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-7}


@pytest.fixture(scope="module")
def producer():
    return Producer(11, CONFIG)


def single_operators(producer):
    """One case for a common signature of every operator."""
    first = {}
    for key in producer.signatures()["direct"]:
        name = key.partition("(")[0]
        if name not in first or ("(float32" in key and "(float32" not in first[name]):
            first[name] = key
    found = (producer.made(Probe(SupportKey.parse(f"direct:{key}"), 0)) for key in first.values())
    return [case for case in found if isinstance(case, TestCase) and known(case)]


def known(case):
    """Whether the toy compiler takes the model."""
    try:
        load(case.model)
    except Unsupported:
        return False
    return True


def test_agrees_with_onnxruntime_operator_by_operator(producer):
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    compared = 0
    for case in single_operators(producer):
        ours = run(load(case.model), case.inputs).outputs()
        try:
            session = ort.InferenceSession(case.model, options, providers=["CPUExecutionProvider"])
        except ort.capi.onnxruntime_pybind11_state.NotImplemented:
            continue
        for name, theirs in zip(ours, session.run(list(ours), case.inputs), strict=True):
            tolerance = TOLERANCE.get(str(theirs.dtype), 0)
            op = case.graph.nodes[0]
            assert ours[name].dtype == theirs.dtype, op
            np.testing.assert_allclose(
                ours[name], theirs, rtol=tolerance, atol=tolerance, err_msg=str(op)
            )
        compared += 1
    assert compared > 60


def test_agrees_with_pytorch_on_whole_models(producer):
    produced = map(producer.produce, range(12))
    cases = [c for c in produced if isinstance(c, TestCase) and known(c)]
    for case in cases:
        outputs = run(load(case.model), case.inputs).outputs()
        verdict = producer.judge(case, {Target("planted"): outputs})
        assert not verdict.mismatches[Target("planted")]
    assert len(cases) > 6


def test_a_rerun_equals_a_run_from_scratch(producer):
    """Starting from the values of O0 saves time and changes nothing."""
    checked = 0
    produced = map(producer.produce, range(6))
    for case in [c for c in produced if isinstance(c, TestCase) and known(c)]:
        base = run(load(case.model), case.inputs)
        for change in PLANTED_BUGS:
            program = change.apply(base.program)
            if program is None:
                continue
            try:
                whole = run(program, case.inputs).outputs()
            except Exception:
                continue
            assert scoring.same(whole, run(program, case.inputs, base).outputs()), change.name
            checked += 1
    assert checked > 20


def test_common_bugs_are_found_and_legal_variations_pass():
    chosen = [c for c in PLANTED_BUGS if c.name in COMMON]
    legal = [c for c in LEGAL_VARIATIONS if c.name in ("sums_pairwise", "excess_precision")]
    bench = Bench(5, [*chosen, *legal], legal, CONFIG)
    bench.run(20)
    assert bench.models == 20 and not bench.baseline_alarms
    for change in chosen:
        assert bench.scores[change.name].found, change.name
    assert not any(bench.scores[c.name].alarms for c in legal)
    assert sum(bench.scores[c.name].reached for c in legal) > 5
    whole = recalls(list(bench.scores.values()))["all"]
    assert whole.bugs == whole.found == len(COMMON)


def test_command_line(capsys):
    assert main(["--models", "3", "--only", "copied_in_half"]) == 0
    printed = capsys.readouterr().out
    assert "copied_in_half" in printed and "3 models" in printed
    assert main(["--models", "2", "--legal", "--only", "excess_precision"]) == 0
    assert "false alarms" in capsys.readouterr().out
    assert main(["--only", "no_such_bug"]) == 2


def test_serves_as_a_backend(producer):
    registry = BackendRegistry.discover([PLUGIN])
    produced = map(producer.produce, range(9))
    case = next(c for c in produced if isinstance(c, TestCase) and known(c))
    backend = registry.spec("planted", {"change": "copied_in_half"}).load()
    module = backend.import_model(case.model)
    plain, changed = (backend.compile(module, level)(case.inputs) for level in ("O0", "O1"))
    assert plain.keys() == changed.keys() == case.expected.keys()


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
