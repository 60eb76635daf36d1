"""Does an adapter keep the contract of `nnfuzz.backend.contract`? For authors of backends::

    from nnfuzz.backend.conformance import check_backend

    def test_my_backend():
        check_backend("mine", plugins=["my_backend.py"])

It runs small models in the real sandbox and raises AssertionErrors that say what to change. A
model that the backend calls `unsupported` is passed over; at least the float32 ones must run.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import home_of
from nnfuzz.backend.runner import AdapterFault, BackendRunner, RunnerError
from nnfuzz.backend.target import DEFAULT, ONNX, Pipeline
from nnfuzz.base.programs import run_program
from nnfuzz.base.text import one_line
from nnfuzz.ir.dtypes import DType, is_floating
from nnfuzz.ir.sizes import by_copy, from_copies

OPSET, IR_VERSION = 21, 10
_DRAWN = 5  # pipelines that are tried
FLAT = {"s": np.array([-1])}


@dataclass(frozen=True)
class ConformanceProbe:
    """A small model, its inputs, and its outputs by definition. `core` models must run."""

    name: str
    model: bytes
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    core: bool = False


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def check_backend(
    text: str,
    plugins: Iterable[str | Path] = (),
    probes: Iterable[ConformanceProbe] | None = None,
    say: Callable[[str], None] = _to_stderr,
) -> dict[str, str]:
    """Checks the backend "name,key=value"; returns the result of each probe: "ok" or why not.

    say: called with a line before each step, which a slow compiler takes seconds for; `pytest -s`
    shows what goes to stderr.

    Raises: AssertionError that teaches; RunnerError if the backend cannot be started at all.
    """
    registry = BackendRegistry.discover(plugins)
    spec = registry.parse(text)
    _check_class(registry.get(spec.name))
    tried = list(probes if probes is not None else standard_probes())
    levels = len(registry.get(spec.name).levels)
    say(f"{spec}: {len(tried)} models at {levels} levels, each twice; then errors and pipelines")
    with BackendRunner(spec, registry) as runner:
        _check_versions(runner)
        fates = {}
        for number, probe in enumerate(tried, 1):
            say(f"{spec}: model {number} of {len(tried)}, {probe.name}")
            fates[probe.name] = _check_probe(runner, probe)
        say(f"{spec}: {_DRAWN} pipelines, if it has such, and models that must be refused")
        _check_pipelines(runner, standard_probes()[0])
        _check_errors(runner)
        core = standard_probes()[0]
        check_script(runner, core.model, core.model.replace(b"Add", b"Adx"), core.inputs)
        assert runner.sandbox.pid is not None, "the worker died although every test case was tame"
    return fates


def standard_probes() -> list[ConformanceProbe]:
    """Float32 core, then scalars, no inputs, several outputs, odd names, and every dtype."""
    # Integers of 13 bits: all results are exact in float32, and wrong in TF32 or bfloat16.
    x = (np.arange(12, dtype=np.float32) * 701 - 4001).reshape(3, 4)
    weight = np.arange(8, dtype=np.float32).reshape(4, 2)
    flags = np.array([True, False, True])
    probes = [
        _probe("add", [("Add", "xx", "y", {})], {"x": x}, {"y": x + x}, core=True),
        _probe(
            "matmul with a weight",
            [("MatMul", "xw", "y", {})],
            {"x": x},
            {"y": x @ weight},
            {"w": weight},
            core=True,
        ),
        _probe(
            "two outputs, one used inside",
            [("Relu", "x", "r", {}), ("Neg", "r", "n", {})],
            {"x": x},
            {"n": -np.maximum(x, 0), "r": np.maximum(x, 0)},
            core=True,
        ),
        _probe(
            "two inputs, not in alphabetical order",
            [("Sub", "ba", "y", {})],
            {"b": x, "a": np.float32(2) * x},
            {"y": -x},
            core=True,
        ),
        _probe(
            "scalar",
            [("Neg", "s", "y", {})],
            {"s": np.array(3, np.float32)},
            {"y": np.array(-3, np.float32)},
        ),
        _probe(
            "empty",
            [("Neg", "x", "y", {})],
            {"x": np.zeros((0, 3), np.float32)},
            {"y": np.zeros((0, 3), np.float32)},
        ),
        _probe("no inputs", [("Neg", "w", "y", {})], {}, {"y": -weight}, {"w": weight}),
        _probe("output is an input", [("Identity", "x", "y", {})], {"x": x}, {"y": x}),
        _probe(
            "output is a constant", [("Identity", "w", "y", {})], {}, {"y": weight}, {"w": weight}
        ),
        _probe(
            "one value as two outputs",
            [("Neg", "x", "y", {}), ("Identity", "y", "z", {})],
            {"x": x},
            {"z": -x, "y": -x},
        ),
        _probe("input not used", [("Neg", "x", "y", {})], {"x": x, "u": x}, {"y": -x}),
        _probe("bool", [("Not", "f", "y", {})], {"f": flags}, {"y": ~flags}),
        _probe("compare", [("Less", "xz", "y", {})], {"x": x, "z": -x}, {"y": x < -x}),
    ]
    for dtype in DType:
        array = np.arange(6).reshape(2, 3).astype(dtype.numpy)
        probes.append(
            _probe(
                dtype.value, [("Reshape", "xs", "y", {})], {"x": array}, {"y": array.ravel()}, FLAT
            )
        )
    return probes


def _probe(
    name: str,
    nodes: list[tuple[str, str, str, dict[str, Any]]],
    inputs: dict[str, np.ndarray],
    expected: dict[str, np.ndarray],
    weights: dict[str, np.ndarray] | None = None,
    core: bool = False,
) -> ConformanceProbe:
    """Nodes are (operator, inputs, outputs, attributes); every value has a one-letter name."""
    from onnx import helper, numpy_helper

    def declare(values: dict[str, np.ndarray]) -> list[Any]:
        return [
            helper.make_tensor_value_info(
                key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for key, value in values.items()
        ]

    graph = helper.make_graph(
        [helper.make_node(op, list(ins), list(outs), **attrs) for op, ins, outs, attrs in nodes],
        "probe",
        declare(inputs),
        declare(expected),
        [numpy_helper.from_array(value, key) for key, value in (weights or {}).items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    return ConformanceProbe(name, model.SerializeToString(), inputs, expected, core)


def _check_class(cls: Any) -> None:
    assert isinstance(cls.name, str) and cls.name, f"{cls.__name__}.name must be a non-empty text"
    assert cls.levels and len(set(cls.levels)) == len(cls.levels), (
        f"{cls.name}: levels must name at least one level, each once, from the least to the most "
        f"optimised; they are {cls.levels!r}"
    )
    assert set(cls.default_levels()) <= set(cls.levels), (
        f"{cls.name}: default_levels() {cls.default_levels()} must be among levels {cls.levels}"
    )
    for printed in ("", "loading\n\ndone\n"):
        assert not cls.console(printed), (
            f"{cls.name}: console() must return the reason of an error, and None where "
            f"none was printed; of {printed!r} it returned {cls.console(printed)!r}"
        )


def _check_versions(runner: BackendRunner) -> None:
    versions = runner.versions()
    assert versions and all(
        isinstance(k, str) and isinstance(v, str) and v for k, v in versions.items()
    ), f"versions() must map the compiler's name to its version text, not {versions!r}"


def _check_pipelines(runner: BackendRunner, probe: ConformanceProbe) -> None:
    """A drawn pipeline depends on the seed alone, has known steps, and changes no results. The
    level DEFAULT runs, and with all that makes it exact it changes no results either. Nor does the
    way in which a program is called three times (Backend.ways).
    """
    steps, usual = runner.backend.given_away(), Pipeline(DEFAULT)
    pipelines = [usual, Pipeline(DEFAULT, steps)] if steps else []
    for seed in range(_DRAWN):
        one, two = (runner.draw_pipeline(random.Random(seed)) for _ in range(2))
        assert one == two, f"draw_pipeline must depend on rng alone: {one} and {two}"
        pipelines += [one] if one else []
    for own in pipelines:
        unfit = [step for step in own.steps if not step or {*step} & {*"+, "}]
        assert not unfit, f"a step is a word without any of '+, ', not {unfit[0]!r}"
        runner.backend.check_level(str(own))
        (outcome,) = runner.run(probe.model, probe.inputs, [str(own)])
        where = f"{runner.name} at {own}, model {probe.name!r}"
        assert outcome.ok, f"{where}: {outcome.kind} at {outcome.stage}: {outcome.message}"
        if outcome.stage is Stage.EXECUTE and own != usual:
            _check_outputs(where, probe, outcome, outcome)
    levels = [f"{runner.backend.levels[-1]}+{way}" for way in runner.backend.ways()]
    for outcome in runner.run(probe.model, from_copies([probe.inputs] * 3), levels):
        where = f"{runner.name} at {outcome.level}, model {probe.name!r} called three times"
        assert outcome.ok, f"{where}: {outcome.kind} at {outcome.stage}: {outcome.message}"
        for part in by_copy(outcome.outputs or {}):
            call = replace(outcome, outputs=part)
            _check_outputs(where, probe, call, call)


def _reason(outcome: Outcome) -> str:
    """The compiler's own reason, without backtraces and on one line."""
    subject = outcome.complaint.subject if outcome.complaint else ""
    return one_line(subject or outcome.message)


def _check_probe(runner: BackendRunner, probe: ConformanceProbe) -> str:
    levels = runner.backend.levels
    try:
        first = runner.run(probe.model, probe.inputs, levels)
    except AdapterFault as fault:
        raise AssertionError(f"model {probe.name!r}: {fault}") from None
    again = {o.level: o for o in runner.run(probe.model, probe.inputs)}
    assert [o.level for o in first] == list(levels), "one outcome per level, in order"
    fates = []
    for one in first:
        where = f"{runner.name} at {one.level}, model {probe.name!r}"
        if one.ok and one.stage is Stage.COMPILE:
            fates.append("compiled, not run")
            continue
        if one.ok:
            _check_outputs(where, probe, one, again.get(one.level, one))
        elif probe.core:
            raise AssertionError(
                f"{where}: this model must run, but {one.kind} at {one.stage}: "
                f"{one.error_type} {one.message}\n{one.traceback}{one.captured}"
            )
        fates.append("ok" if one.ok else f"{one.level}: {one.kind} at {one.stage}: {_reason(one)}")
    return next((fate for fate in fates if fate != "ok"), "ok")


def _check_outputs(where: str, probe: ConformanceProbe, one: Outcome, two: Outcome) -> None:
    assert two.outputs is not None and one.outputs is not None, (
        f"{where}: ran once, and failed with the same inputs: {two.kind} {two.message}"
    )
    assert Stage.EXECUTE in one.seconds, f"{where}: {one.seconds}"
    for name, wanted in probe.expected.items():
        got = one.outputs[name]
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), (
            f"{where}: output {name!r} is {got.dtype}{list(got.shape)}, the model declares "
            f"{wanted.dtype}{list(wanted.shape)}: is the adapter mixing up outputs, or dropping "
            "the shape of scalars?"
        )
        np.testing.assert_array_equal(
            got,
            wanted,
            err_msg=f"{where}: output {name!r} is exact in IEEE arithmetic. Wrong by a little: "
            "switch off TF32, bfloat16 and fast-math. Wrong altogether: inputs or outputs are in "
            "the wrong order, or a result is a view of memory that is used again",
        )
        same = np.array_equal(got, two.outputs[name], equal_nan=is_floating(got))
        assert same, f"{where}: the second run with the same inputs gives another answer"


def _check_errors(runner: BackendRunner) -> None:
    probe = standard_probes()[0]
    _refused(
        runner,
        lambda: runner.run(probe.model, {"wrong": probe.inputs["x"]}),
        "an input name that the model does not have",
    )
    _refused(runner, lambda: runner.run(b"not a model", {}), "bytes that are not a model")
    broken = probe.model.replace(b"Add", b"Adx")
    for outcome in runner.run(broken, probe.inputs):
        assert outcome.kind in (OutcomeKind.UNSUPPORTED, OutcomeKind.EXCEPTION), (
            f"{runner.name}: an operator that does not exist must raise, not end in {outcome.kind}"
        )
        assert outcome.error_type and outcome.message, "an exception must keep type and message"


def _refused(runner: BackendRunner, action: Callable[[], Any], what: str) -> None:
    try:
        action()
    except RunnerError:
        return
    raise AssertionError(f"{runner.name} accepted {what}: does it override import_model/compile?")


SCRIPT_SECONDS = 300.0
"""The time limit of one run of a script, which loads the compiler."""
_DRIVER = """\
from __future__ import annotations

import sys
import numpy as np

{program}

with np.load("inputs.npz") as archive:
    inputs = dict(archive)
with open("model.onnx", "rb") as file:
    model = file.read()
try:
    outputs = run(model, inputs, sys.argv[1])
except Exception as error:
    sys.exit(f"{{type(error).__name__}}: {{error}}")
np.savez("outputs.npz", **{{name: np.asarray(value) for name, value in outputs.items()}})
"""


def check_script(
    runner: BackendRunner, model: bytes, refused: bytes, inputs: Mapping[str, np.ndarray]
) -> None:
    """Runs the script of a backend in fresh processes, on a model that works and on one that the
    adapter refuses. Backends without a script of their own, and those that do not read ONNX, pass.

    Raises: AssertionError that teaches.
    """
    backend = runner.backend(**runner.spec.options)
    program = backend.own_repro()
    if program is None or runner.reads != ONNX:
        return
    (right,) = runner.run(model, inputs, runner.backend.levels[:1])
    if right.stage is not Stage.COMPILE:
        _check_script_outputs(runner, right, _run_script(runner, program, model, inputs))
    (wrong,) = runner.run(refused, inputs, runner.backend.levels[:1])
    if wrong.kind in (OutcomeKind.UNSUPPORTED, OutcomeKind.EXCEPTION):
        answer = _run_script(runner, program, refused, inputs)
        assert isinstance(answer, str), (
            f"{runner.name}: the adapter raises {wrong.error_type} for an operator that does not "
            "exist, and the script of repro() returns outputs: it must raise as well"
        )


def _check_script_outputs(
    runner: BackendRunner, outcome: Outcome, answer: Mapping[str, np.ndarray] | str
) -> None:
    where = f"{runner.name} at {outcome.level}: the script of repro()"
    assert not isinstance(answer, str), f"{where} fails where the adapter does well: {answer}"
    expected = outcome.outputs or {}
    assert answer.keys() == expected.keys(), (
        f"{where} returns the outputs {sorted(answer)}, the adapter {sorted(expected)}"
    )
    for name, value in expected.items():
        same = answer[name].dtype == value.dtype and np.array_equal(answer[name], value)
        assert same, f"{where} computes {answer[name]} for {name!r}, the adapter {value}"


def _run_script(
    runner: BackendRunner, program: str, model: bytes, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray] | str:
    """The outputs that the script returns, or its error as text."""
    home = home_of(runner.backend, runner.spec.release)
    with tempfile.TemporaryDirectory(prefix="nnfuzz-") as folder:
        place = Path(folder)
        (place / "script.py").write_text(_DRIVER.format(program=program))
        (place / "model.onnx").write_bytes(model)
        np.savez(place / "inputs.npz", **inputs)  # type: ignore[arg-type]
        command = [home.python if home else sys.executable, "script.py", runner.backend.levels[0]]
        done = run_program(command, cwd=place, timeout=SCRIPT_SECONDS)
        if done.returncode:
            return (done.stdout + done.stderr)[-1000:].strip() or f"exit code {done.returncode}"
        with np.load(place / "outputs.npz", allow_pickle=False) as archive:
            return dict(archive)
