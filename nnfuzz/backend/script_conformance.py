"""Does the script of `Backend.repro` compute the same as the adapter? A part of
nnfuzz.backend.conformance.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.releases import home_of
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.backend.target import ONNX
from nnfuzz.base.programs import run_program

SECONDS = 300.0
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


def own_script(backend: Backend) -> str | None:
    """The program that a backend offers for repro.py; None if it has none, or inherits one although
    `load` or `build` is its own.
    """

    def depth(name: str) -> int:
        return next(i for i, cls in enumerate(type(backend).__mro__) if name in vars(cls))

    own = depth("repro") <= min(depth("load"), depth("build"))
    return backend.repro() if own else None


def check_script(
    runner: BackendRunner, model: bytes, refused: bytes, inputs: Mapping[str, np.ndarray]
) -> None:
    """Runs the script of a backend in fresh processes, on a model that works and on one that the
    adapter refuses. Backends without a script of their own, and those that do not read ONNX, pass.

    Raises: AssertionError that teaches.
    """
    backend = runner.backend(**runner.spec.options)
    program = own_script(backend)
    if program is None or runner.reads != ONNX:
        return
    (right,) = runner.run(model, inputs, runner.backend.levels[:1])
    if right.stage is not Stage.COMPILE:
        _check_outputs(runner, right, _run(runner, program, model, inputs))
    (wrong,) = runner.run(refused, inputs, runner.backend.levels[:1])
    if wrong.kind in (OutcomeKind.UNSUPPORTED, OutcomeKind.EXCEPTION):
        answer = _run(runner, program, refused, inputs)
        assert isinstance(answer, str), (
            f"{runner.name}: the adapter raises {wrong.error_type} for an operator that does not "
            "exist, and the script of repro() returns outputs: it must raise as well"
        )


def _check_outputs(
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


def _run(
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
        done = run_program(command, cwd=place, timeout=SECONDS)
        if done.returncode:
            return (done.stdout + done.stderr)[-1000:].strip() or f"exit code {done.returncode}"
        with np.load(place / "outputs.npz", allow_pickle=False) as archive:
            return dict(archive)
