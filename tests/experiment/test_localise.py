"""A failure is traced to a coordinate, a pipeline, a pass."""

from __future__ import annotations

from dataclasses import replace

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.backend.contract import OptionError
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.backend.target import Target
from nnfuzz.base.writing import as_json
from nnfuzz.experiment.bisection import BisectionStep, ReleaseAnswer, came, went
from nnfuzz.experiment.compilers import examine
from nnfuzz.experiment.localise import _invalid, _Search, localise, shorten_pipeline
from nnfuzz.findings.folder import read_finding, write_finding
from nnfuzz.findings.replay import ReplayResult, replay_finding
from nnfuzz.findings.repro import program_of
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.finding import Finding
from nnfuzz.reduction.case import Problem, ReduceConfig, reduce_case
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.producer import Producer
from nnfuzz.triage.cause import Cause, Symptoms
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
        self.expose, self.lower = producer.expose, producer.lower
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


# A binary search over releases asks as few as it can, and says what it saw.


RELEASES = [f"1.{n}" for n in range(35)]


def asked(answers):
    """A compiler that answers for releases as a list says, and counts how often."""
    calls = []

    def ask(release):
        calls.append(release)
        return BisectionStep(release, answers[RELEASES.index(release)])

    return ask, calls


@pytest.mark.parametrize(
    ("search", "before", "after", "told"),
    [
        (came, "RIGHT", "FAILS", "fails since 1.{0}; 1.{1} is right"),
        (went, "FAILS", "RIGHT", "1.{0} is right; it fails up to 1.{1}"),
    ],
)
@given(first=st.integers(1, 34))
def test_the_first_release_that_differs_is_found_in_six(search, before, after, told, first):
    answers = [ReleaseAnswer[before]] * first + [ReleaseAnswer[after]] * (35 - first)
    ask, calls = asked(answers)
    found = search("c", RELEASES, ask)
    assert found.release == f"1.{first}" and found.result == told.format(first, first - 1)
    assert len(calls) <= 6
    assert [step.release for step in found.steps] == calls


@given(st.integers(1, 34), st.sets(st.integers(0, 34)))
def test_what_cannot_be_installed_is_skipped(first, missing):
    answers = [ReleaseAnswer.RIGHT] * first + [ReleaseAnswer.FAILS] * (35 - first)
    for i in missing - {34}:
        answers[i] = ReleaseAnswer.SKIPPED
    ask, _ = asked(answers)
    found = came("c", RELEASES, ask)
    there = [i for i in range(35) if answers[i] is not ReleaseAnswer.SKIPPED]
    least = min(i for i in there if i >= first)
    before = [i for i in there if i < first]
    assert found.release == (f"1.{least}" if before else "")
    if before and least - max(before) > 1:
        assert "cannot be installed)" in found.result


def test_ends_that_are_known_are_not_asked():
    ask, calls = asked([ReleaseAnswer.RIGHT] * 34 + [ReleaseAnswer.FAILS])
    assert came("c", ["1.33", "1.34"], ask, right=True).release == "1.34"
    ask, calls = asked([ReleaseAnswer.FAILS] + [ReleaseAnswer.RIGHT] * 34)
    assert went("c", ["1.0", "1.1"], ask, right=True).release == "1.1"
    assert calls == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ReleaseAnswer.UNSUPPORTED, "fails since 1.34; 1.33 does not support the model"),
        (ReleaseAnswer.DIFFERENT, "fails since 1.34; 1.33 fails differently"),
        (ReleaseAnswer.FAILS, "fails in 1.0 already, the oldest that was asked"),
    ],
)
def test_what_comes_before_is_told(answer, told):
    ask, _ = asked([answer] * 34 + [ReleaseAnswer.FAILS])
    assert came("c", RELEASES, ask).result == told


def test_what_fails_in_another_way_is_not_fixed():
    ask, _ = asked(
        [ReleaseAnswer.FAILS] * 3 + [ReleaseAnswer.DIFFERENT] * 20 + [ReleaseAnswer.RIGHT] * 12
    )
    assert went("c", RELEASES, ask).release == "1.23"


def test_a_failure_may_never_go():
    ask, _ = asked([ReleaseAnswer.FAILS] * 35)
    found = went("c", RELEASES, ask)
    assert (found.result, found.release) == ("still fails in 1.34", "")


# A drawn pipeline is reduced to the steps that matter, and the guilty one is named.


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
