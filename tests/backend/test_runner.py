"""Runners run a model in workers and capture what is printed."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnfuzz.backend.contract import OptionError
from nnfuzz.backend.interface import InputError, TensorSpec, check_inputs
from nnfuzz.backend.outcome import LACKING, Outcome, OutcomeKind, RunLevels, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import AdapterFault, BackendRunner, RunnerError, checked
from nnfuzz.backend.target import Target
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.sandbox.sandbox import wait
from tests.models import chain

HERE = Path(__file__).parent
INPUTS = {"x": np.arange(4, dtype=np.float32)}
LEVELS = ("O0", "O1", "O2")


@pytest.fixture(scope="module")
def registry():
    return BackendRegistry.discover([HERE / "hostile.py", HERE / "toy_backend.py"])


@pytest.fixture
def runner(registry, server, request):
    """Impatient only where a timeout is to come: allocation is slow on a busy machine."""
    params = getattr(request.node, "callspec", None)
    hangs = params is not None and params.params.get("kind") is OutcomeKind.TIMEOUT
    spec = registry.parse(f"hostile,timeout={0.3 if hangs else 10},memory=0.25")
    with BackendRunner(spec, registry, server) as runner:
        yield runner


def model(how: str, stage: str = "execute", level: str = "O1") -> bytes:
    return chain("Identity", shape=(4,), about=f"{how} {stage} {level}")


def check_fine(runner):
    outcomes = runner.run(model("nothing"), INPUTS, LEVELS)
    assert [o.kind for o in outcomes] == [OutcomeKind.OK] * 3
    assert [o.level for o in outcomes] == list(LEVELS)
    for outcome in outcomes:
        np.testing.assert_array_equal(outcome.outputs["y"], INPUTS["x"])
        assert {"compile", "execute"} <= set(outcome.seconds)
    assert "import" in outcomes[0].seconds


CASES = [
    ("segfault", OutcomeKind.CRASH, "SIGSEGV", "killed by SIGSEGV"),
    ("abort", OutcomeKind.CRASH, "SIGABRT", "killed by SIGABRT"),
    ("os_exit", OutcomeKind.CRASH, "", "exited with code 3"),
    ("sys_exit", OutcomeKind.CRASH, "", "exited with code 4"),
    ("hang", OutcomeKind.TIMEOUT, "", "exceeded the time limit"),
    ("spin", OutcomeKind.TIMEOUT, "", "exceeded the time limit"),
    ("print_forever", OutcomeKind.TIMEOUT, "", "exceeded the time limit"),
    ("allocate", OutcomeKind.CRASH, None, "memory limit exceeded"),
    ("raise_memory_error", OutcomeKind.CRASH, "", "memory limit exceeded"),
    ("bad_alloc", OutcomeKind.CRASH, "", "memory limit: std::bad_alloc"),
    ("raise", OutcomeKind.EXCEPTION, "", "the compiler dislikes this model"),
    ("panic", OutcomeKind.EXCEPTION, "", "index out of bounds"),
    ("raise_unsupported", OutcomeKind.UNSUPPORTED, "", "no such kernel"),
    (
        "lack_a_locale",
        OutcomeKind.UNSUPPORTED,
        "",
        f"{LACKING}: no locale: locale::facet::_S_create_c_locale name not valid",
    ),
]


@pytest.mark.parametrize("stage", ["compile", "execute"])
@pytest.mark.parametrize(("how", "kind", "signal", "message"), CASES)
def test_one_level_fails_and_the_others_run(runner, how, kind, signal, message, stage):
    first, bad, last = runner.run(model(how, stage, "O1"), INPUTS, LEVELS)
    assert first.ok and last.ok
    assert (bad.kind, bad.stage, bad.level) == (kind, Stage(stage), "O1")
    assert bad.message == message
    if signal is not None:
        assert bad.signal == signal
    assert bad.over_memory_limit == message.startswith("memory limit")
    assert bad.outputs is None
    assert stage in bad.seconds
    assert as_json(read(Outcome, as_json(bad))) == as_json(bad)
    check_fine(runner)


@pytest.mark.parametrize(("how", "kind", "signal", "message"), CASES)
def test_a_failing_import_fails_every_level_once(runner, how, kind, signal, message):
    outcomes = runner.run(model(how, "import", "any"), INPUTS, LEVELS)
    assert [o.level for o in outcomes] == list(LEVELS)
    assert {(o.kind, o.stage, o.message) for o in outcomes} == {(kind, Stage.IMPORT, message)}
    assert [set(o.seconds) for o in outcomes] == [{"import"}, set(), set()]
    check_fine(runner)


@pytest.mark.parametrize("until", [Stage.IMPORT, Stage.COMPILE])
def test_nothing_is_done_behind_the_last_stage_that_is_asked_for(runner, until):
    runner.submit(RunLevels(model("raise", "execute"), INPUTS, LEVELS, until=until))
    outcomes = finished(runner)
    assert {(o.ok, o.stage) for o in outcomes} == {(True, until)}
    assert all(not o.outputs for o in outcomes)
    runner.submit(RunLevels(model("raise", until.value, "O1"), INPUTS, LEVELS, until=until))
    assert finished(runner)[1].kind is OutcomeKind.EXCEPTION
    check_fine(runner)


def test_levels_after_one_that_does_well_may_be_taken_to_do_so_too(runner):
    runner.submit(RunLevels(model("raise", "compile", "O1"), INPUTS, LEVELS, lazy=True))
    assert [o.kind for o in finished(runner)] == [OutcomeKind.OK] * 3
    runner.submit(RunLevels(model("raise", "compile", LEVELS[0]), INPUTS, LEVELS, lazy=True))
    assert [o.ok for o in finished(runner)] == [False, True, True]


def compared(runner, how="nothing", level="O1"):
    """The outcomes where the worker compares outputs with the right ones."""
    job = RunLevels(model(how, "execute", level), INPUTS, LEVELS, reference={"y": INPUTS["x"]})
    runner.submit(job)
    return finished(runner)


def test_no_outputs_are_sent_where_all_levels_agree(runner):
    assert [(o.agrees, o.outputs) for o in compared(runner)] == [(True, None)] * 3
    check_fine(runner)


@pytest.mark.parametrize("level", LEVELS)
def test_outputs_of_every_level_are_sent_where_one_differs(runner, level):
    outcomes = compared(runner, "negate", level)
    assert not any(o.agrees for o in outcomes) and all(o.ok for o in outcomes)
    for outcome in outcomes:
        sign = -1 if outcome.level == level else 1
        np.testing.assert_array_equal(outcome.outputs["y"], sign * INPUTS["x"])
    check_fine(runner)


@pytest.mark.parametrize("how", ["raise", "segfault"])
def test_levels_that_agree_need_no_outputs_beside_one_that_fails(runner, how):
    assert [o.agrees for o in compared(runner, how)] == [True, False, True]
    check_fine(runner)


def test_a_worker_that_was_not_asked_to_compare_cannot_agree():
    sent = Outcome(OutcomeKind.OK, Stage.EXECUTE, Target("c"))
    assert checked(sent, Target("c")).outputs == {}
    assert checked(sent, Target("c"), compares=True).agrees
    failed = replace(sent, kind=OutcomeKind.EXCEPTION)
    assert not checked(failed, Target("c"), compares=True).agrees


def finished(*runners):
    """Outcomes by runner, or those of a single one."""
    done = {}
    while len(done) < len(runners):
        for sandbox, event in wait([runner.sandbox for runner in runners]):
            runner = next(r for r in runners if r.sandbox is sandbox)
            outcomes = runner.feed(event)
            if outcomes is not None:
                done[runner.name] = outcomes
    return done if len(runners) > 1 else next(iter(done.values()))


def test_exceptions_keep_type_traceback_and_output(runner):
    outcome = runner.run(model("raise"), INPUTS, ["O1"])[0]
    assert outcome.error_type == "ValueError"
    assert "in _raise" in outcome.traceback
    outcome = runner.run(model("print_megabytes"), INPUTS, ["O1"])[0]
    assert outcome.ok
    assert outcome.captured.startswith("the first line")


def test_mistakes_of_an_adapter_are_no_outcomes(runner):
    with pytest.raises(AdapterFault, match="KeyError: 'absent'"):
        runner.run(model("slip"), INPUTS, ["O1"])
    check_fine(runner)


def test_what_a_program_returns_is_an_outcome(runner):
    (outcome,) = runner.run(model("garbage"), INPUTS, ["O1"])
    assert (outcome.kind, outcome.stage) == (OutcomeKind.EXCEPTION, Stage.EXECUTE)
    assert outcome.message == "output 'y' is str, not a numpy array"
    check_fine(runner)


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        ({}, "'x' is missing"),
        ({**INPUTS, "z": np.ones(1)}, "'z' is no input"),
        ({"x": np.ones(4)}, r"'x' is float64\[4\], the model wants float32\[4\]"),
        ({"x": np.ones(3, np.float32)}, r"float32\[3\]"),
    ],
)
def test_our_own_mistakes_are_no_outcomes(runner, inputs, complaint):
    with pytest.raises(RunnerError, match=complaint):
        runner.run(model("nothing"), inputs)
    with pytest.raises(RunnerError, match="not an ONNX model"):
        runner.run(b"\xff\xff", INPUTS)
    with pytest.raises(OptionError, match="did you mean 'O2'"):
        runner.run(model("nothing"), INPUTS, ["02"])
    check_fine(runner)


def test_wrong_inputs_are_named_in_the_order_of_the_model():
    names = [f"{letter}{n}" for n in range(4) for letter in "xyz"]
    wanted = {name: TensorSpec(np.dtype(np.float32), (4,)) for name in names}
    with pytest.raises(InputError) as told:
        check_inputs(wanted, {name: np.ones(1) for name in sorted(names)})
    assert re.findall(r"'(\w+)' is float64", str(told.value)) == names


def test_the_default_pair_is_first_and_last(runner):
    assert [o.level for o in runner.run(model("nothing"), INPUTS)] == ["O0", "O2"]
    assert runner.versions() == {"hostile": "1"}


def test_runners_work_side_by_side(registry, server):
    with (
        BackendRunner(registry.parse("hostile"), registry, server) as one,
        BackendRunner(registry.parse("toy,fold=no"), registry, server) as two,
    ):
        one.submit(RunLevels(model("segfault"), INPUTS, LEVELS))
        two.submit(RunLevels(model("nothing"), INPUTS, ()))
        done = finished(one, two)
        assert [o.kind for o in done["hostile"]] == ["ok", "crash", "ok"]
        assert [o.kind for o in done["toy"]] == ["ok", "ok"]


def test_a_missing_compiler_names_the_fix(registry, tmp_path):
    plugin = tmp_path / "absent.py"
    plugin.write_text(
        "from nnfuzz.backend.contract import Backend\n"
        "class Absent(Backend):\n"
        "    name = 'absent'\n"
        "    levels = ('O0',)\n"
        "    preload = ('no_such_compiler.api',)\n"
        "    versions = load = build = lambda self, *_: None\n"
    )
    registry = BackendRegistry.discover([plugin])
    with pytest.raises(RunnerError, match="pip install no_such_compiler"):
        BackendRunner(registry.parse("absent"), registry)


def test_passes_are_told_where_that_is_asked_for(runner):
    fine = model("nothing")
    assert runner.changed_passes(fine, "O2") == ["tidy", "fold"]
    assert runner.known_passes(fine, "O2") == ["tidy", "fold", "tile"]
