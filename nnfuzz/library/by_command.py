"""A command of the user's in place of a compiler: a model fails if the exit code is a given one."""

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
from nnfuzz.base.files import npz_bytes
from nnfuzz.library.checking import cases_to_check
from nnfuzz.library.experiment import Experiment, reduce
from nnfuzz.records.finding import Finding
from nnfuzz.testcase.case import ModelError

if TYPE_CHECKING:
    import onnx

    from nnfuzz.reduction.engine import ReductionProgress

MODEL, INPUTS = "{}", "{inputs}"
"""Words of a command that stand for the paths of the model and of its inputs (.npz)."""


class CommandFailed(RuntimeError):
    """The command exits as it does with the whole model."""


def exit_code(
    words: Sequence[str], folder: str, model: bytes, inputs: Mapping[str, np.ndarray]
) -> int:
    """The exit code of a command in a folder; MODEL is appended if it is no word of it."""
    with tempfile.TemporaryDirectory() as place:
        paths = {MODEL: Path(place, "model.onnx"), INPUTS: Path(place, "inputs.npz")}
        paths[MODEL].write_bytes(model)
        paths[INPUTS].write_bytes(npz_bytes(inputs))
        line = [str(paths.get(w, w)) for w in (*words, *([] if MODEL in words else [MODEL]))]
        quiet = subprocess.DEVNULL
        done = subprocess.run(line, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet)
    return done.returncode


class Command(Backend):
    """Runs the command on each model; it computes no values."""

    name = "command"
    levels = ("run",)

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        script: str = option("", "a file with the command, its folder and the code, as JSON")

    def versions(self) -> dict[str, str]:
        return {"command": "1"}

    def load(self, model: bytes) -> bytes:
        return bytes(model)

    def build(self, module: bytes, level: str) -> Program:
        words, folder, code = json.loads(Path(self.options.script).read_text(encoding="utf-8"))

        def run(inputs: dict[str, np.ndarray]) -> Mapping[str, np.ndarray]:
            if exit_code(words, folder, module, inputs) == code:
                raise CommandFailed
            raise NoDevice

        return run


def reduce_by_command(
    model: onnx.ModelProto,
    command: Sequence[str],
    budget: int,
    watch: Callable[[ReductionProgress], None],
) -> Finding:
    """The smallest model with which a command exits as it does with this one.

    command: words, see MODEL and INPUTS. Raises: ModelError if the model cannot be imported, or the
    command exits with 0; NotReduced; OSError.
    """
    case, folder = next(cases_to_check(model, None, 0, ())[0]), str(Path.cwd())
    if not (code := exit_code(command, folder, case.model, case.inputs)):
        raise ModelError("the command exits with 0: there is nothing to reduce")
    with tempfile.TemporaryDirectory() as place:
        script = Path(place, "command.json")
        script.write_text(json.dumps([[*command], folder, code]), encoding="utf-8")
        target = Target(f"{Command.name},script={script}")
        with Experiment([target], [__name__], repeats=1) as run:
            if failing := run.findings(run(case)):
                return reduce(failing[0], budget=budget, localise=False, watch=watch)
        raise ModelError(f"the command exits with {code} once, and not again")
