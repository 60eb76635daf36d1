"""A command of the user's in place of a compiler: a model fails where its exit code is not 0."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.backend.contract import Backend, BackendOptions, NoDevice, Program, option
from nnfuzz.backend.target import Target
from nnfuzz.library.checking import case_to_check
from nnfuzz.library.experiment import Experiment, reduce
from nnfuzz.records.finding import Finding
from nnfuzz.testcase.case import ModelError

if TYPE_CHECKING:
    import onnx

    from nnfuzz.reduction.engine import ReductionProgress

MODEL, INPUTS = "{}", "{inputs}"
"""Words of a command that stand for the paths of the model and of its inputs (.npz)."""
DIGITS = "zero one two three four five six seven eight nine minus".split()
"""An exit code is spelt, since messages that differ in numbers alone are the same failure."""


class CommandFailed(RuntimeError):
    """The exit code of the command."""


class Command(Backend):
    """Runs the command on each model; it computes no values."""

    name = "command"
    levels = ("run",)

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        script: str = option("", "a file with the command and its folder, as JSON")

    def versions(self) -> dict[str, str]:
        return {"command": "1"}

    def load(self, model: bytes) -> bytes:
        return bytes(model)

    def build(self, module: bytes, level: str) -> Program:
        words, folder = json.loads(Path(self.options.script).read_text(encoding="utf-8"))

        def run(inputs: dict[str, np.ndarray]) -> Mapping[str, np.ndarray]:
            with tempfile.TemporaryDirectory() as place:
                model, arrays = Path(place, "model.onnx"), Path(place, "inputs.npz")
                model.write_bytes(module)
                np.savez(arrays, **inputs)  # type: ignore[arg-type]
                named = {MODEL: str(model), INPUTS: str(arrays)}
                line = [named.get(word, word) for word in words]
                line += [] if MODEL in words else [str(model)]
                quiet = subprocess.DEVNULL
                done = subprocess.run(line, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet)
            if code := done.returncode:
                spelt = " ".join(DIGITS["0123456789-".index(sign)] for sign in str(code))
                raise CommandFailed(f"the command exits with {spelt}")
            raise NoDevice

        return run


def reduce_by_command(
    model: onnx.ModelProto,
    command: Sequence[str],
    inputs: Mapping[str, np.ndarray] | None = None,
    budget: int = 800,
    watch: Callable[[ReductionProgress], None] = lambda progress: None,
) -> Finding:
    """The smallest model with which a command exits as it does with this one.

    command: words; MODEL stands for the path of the model, which is appended otherwise. Raises:
    ModelError if the model cannot be imported, or the command exits with 0; NotReduced.
    """
    case = case_to_check(model, inputs, 0, ())
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "command.json")
        script.write_text(json.dumps([[*command], str(Path.cwd())]), encoding="utf-8")
        target = Target(f"{Command.name},script={script}")
        with Experiment([target], [__name__], repeats=1) as run:
            failing = run.findings(run(case))
        if not failing:
            raise ModelError("the command exits with 0: there is nothing to reduce")
        return reduce(failing[0], budget=budget, localise=False, watch=watch)
