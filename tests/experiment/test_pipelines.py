"""A drawn pipeline is reduced to the steps that matter, and the guilty one is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnfuzz.backend.contract import OptionError
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.writing import as_json
from nnfuzz.experiment.compilers import examine
from nnfuzz.experiment.localise import localise, shorten_pipeline
from nnfuzz.findings.folder import read_finding, write_finding
from nnfuzz.findings.replay import ReplayResult, replay_finding
from nnfuzz.findings.repro import program_of
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.finding import Finding
from nnfuzz.reduction.case import Problem, ReduceConfig, reduce_case
from nnfuzz.testcase.producer import Producer
from nnfuzz.triage.cause import Cause, Symptoms
from tests.experiment.test_localise import Bench
from tests.reduction.conftest import CONFIG, PLUGIN, first_failing, planted


def failing(*wanted):
    """Pipelines fail that have one of these step lists within."""
    asked = []

    def fails(levels):
        asked.extend(levels)
        steps = {level: level.split("+")[1:] for level in levels}
        return [
            level for level, mine in steps.items() if any(within(each, mine) for each in wanted)
        ]

    return fails, asked


def within(few, many):
    rest = iter(many)
    return all(step in rest for step in few)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["c"], "O1+c"),
        (["a", "c"], "O1+a+c"),
        (["a", "b", "c", "d=1"], "O1+a+b+c+d=1"),
        (["d=1"], "O1+d=1"),
    ],
)
def test_what_can_be_left_out_is(wanted, expected):
    fails, asked = failing(wanted)
    assert shorten_pipeline("O1+a+b+c+d=1", fails) == expected
    assert len(asked) <= 8
    assert shorten_pipeline(expected, fails) == expected


def test_a_level_is_as_short_as_can_be():
    assert shorten_pipeline("O1", lambda levels: pytest.fail("nothing is to be run")) == "O1"


def test_a_pipeline_is_a_function_of_seed_and_index():
    config = CampaignConfig((BackendRegistry.discover([PLUGIN]).spec("drawn", {}),), pipelines=0.5)
    backend = BackendRegistry.discover([PLUGIN]).get("drawn")()

    def drawn(seed, index):
        rng = replace(config, seed=seed).drawing(index, "drawn")
        return rng and str(backend.draw_pipeline(rng))

    first = [drawn(3, index) for index in range(100)]
    assert first == [drawn(3, index) for index in reversed(range(100))][::-1]
    assert first != [drawn(4, index) for index in range(100)]
    assert 30 < sum(text is not None for text in first) < 70
    for text in filter(None, first):
        backend.check_level(text)
    assert not any(replace(config, pipelines=0.0).drawing(i, "drawn") for i in range(100))


def test_unknown_steps_are_refused():
    backend = BackendRegistry.discover([PLUGIN]).get("drawn")
    with pytest.raises(OptionError, match="has no step 'Tydi'; did you mean 'Tidy'"):
        backend.check_level("O0+Sweep+Tydi")
    with pytest.raises(OptionError, match="has no level 'O7'"):
        backend.check_level("O7+Tidy")
    assert backend.having(["O0+Tidy", "O1", "O9", "O0+gone", "O0"]) == ("O0", "O1", "O0+Tidy")


@pytest.fixture(scope="module")
def registry():
    return BackendRegistry.discover([PLUGIN])


@pytest.fixture(scope="module")
def producer():
    return Producer(2, CONFIG)


@pytest.fixture(scope="module")
def seen(registry, producer):
    """The first finding of the planted rule with a pipeline."""
    case = first_failing(producer, registry)

    def run(pipeline, **options):
        spec = registry.spec("drawn", options)
        with BackendRunner(spec, registry) as runner:
            result = examine(case, runner, Bench(producer), ["O0", pipeline])
        failure = planted(result.failures)
        told = result.verdict, {"onnx": "x"}
        blame = result.blame(failure)
        config = as_json(CONFIG)
        return Finding(failure, case, result.outcomes, spec, config, *told, blame=blame)

    return run


@pytest.mark.parametrize(
    ("pipeline", "least", "passes", "party"),
    [
        ("O0+Tidy+Prepare+Sweep+Rewrite+mode=even", "O0+Prepare+Rewrite", ("Rewrite",), "Rewrite"),
        ("O0+Prepare+Rewrite+Sweep", "O0+Prepare+Rewrite", ("Rewrite",), "Rewrite"),
        ("O0+Rewrite+Prepare+mode=odd", "O0+mode=odd", ("mode=odd",), "option mode=odd"),
    ],
)
def test_the_guilty_step_is_named(registry, producer, seen, pipeline, least, passes, party):
    finding = seen(pipeline)
    assert finding.failure.levels == (pipeline,)
    with BackendRunner(finding.backend, registry) as runner:
        found = localise(finding.case, finding.failure, runner, Bench(producer))
    assert (found.level, found.passes) == (least, passes)
    assert party in found.party
    assert found.levels[pipeline] == "fails" and found.levels["O0"] == found.levels["O1"] == "ok"
    shorter = [text for text in found.evidence if text.endswith(f"{least} has what it takes")]
    assert bool(shorter) == (least != pipeline)


def test_a_step_is_named_where_every_level_fails_otherwise(registry, producer, seen):
    finding = seen("O0+Prepare+Rewrite", raises=True, broken=True)
    with BackendRunner(finding.backend, registry) as runner:
        found = localise(finding.case, finding.failure, runner, Bench(producer))
    assert found.levels == {"O0": "exception", "O1": "exception", "O0+Prepare+Rewrite": "fails"}
    assert (found.passes, found.party) == (("Rewrite",), "optimiser (Rewrite)")


def test_one_cause_is_one_finding_whatever_the_pipeline(seen):
    one, two = (
        Cause.of(finding.failure, finding.case.graph, Symptoms(passes=("Rewrite",)))
        for finding in map(seen, ("O0+Prepare+Rewrite", "O0+Tidy+Prepare+Sweep+Rewrite"))
    )
    assert one.hash == two.hash
    assert seen("O0+Prepare+Rewrite").failure.kinds_of_levels == "drawn"


@pytest.mark.slow
def test_reduction_leaves_no_step_that_is_not_needed(registry, seen):
    finding = seen("O0+Sweep+Prepare+Tidy+Rewrite")
    problem = Problem(
        finding.case,
        finding.failure,
        finding.backend,
        finding.config,
        tuple(o.level for o in finding.outcomes),
    )
    done = reduce_case(problem, ReduceConfig(registry=registry))
    assert done.failure.levels == ("O0+Prepare+Rewrite",)
    assert sorted(node.op for node in done.case.graph.nodes) == ["Add", "Mul"]


def test_a_finding_is_replayed_at_its_pipeline(registry, producer, seen, tmp_path):
    finding = seen("O0+Prepare+Rewrite")
    program = program_of(finding.backend, registry, finding.case, finding.failure.levels)
    folder = write_finding(tmp_path / "finding", finding, program)
    again = read_finding(folder, trusted=lambda plugin: plugin)
    assert again.failure.targets[0].pipeline == "O0+Prepare+Rewrite"
    assert "O0+Prepare+Rewrite" in (folder / "repro.py").read_text()
    with BackendRunner(finding.backend, registry) as runner:
        assert replay_finding(again, runner, Bench(producer)).answer is ReplayResult.REPRODUCED
