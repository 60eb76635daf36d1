"""A base of adapters for compilers that are programs: a command that reads and writes files.

@nnfuzz.register
class Toy(CommandBackend):
    name = "toy"
    levels = ("O0", "O2")
    command = ("toyc", "{model}", "-{level}", "--inputs", "{inputs}", "--outputs", "{outputs}")
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

import numpy as np

from nnfuzz.backend.contract import Backend, Program
from nnfuzz.backend.interface import OnnxModel
from nnfuzz.base.safe_path import safe_environment


class CommandError(RuntimeError):
    """The command ended with an error; the message is what it wrote to stderr, or else its code."""


class CommandBackend(Backend):
    """compile_command, command: those for `build` and for its program. Places to fill in: {model},
    a file; {program}, a file that the first one writes; {inputs} and {outputs}, folders with
    NAME.npy for each value, special characters of names as %XX; {level}. Without the first, the
    second does everything.

    What a command writes to stderr is the message of its error. If a signal ends it, this process
    prints that and dies of the same signal, so that the outcome is a crash.
    """

    compile_command: ClassVar[tuple[str, ...]] = ()
    command: ClassVar[tuple[str, ...]]

    @classmethod
    def missing(cls) -> str | None:
        absent = [c[0] for c in (cls.compile_command, cls.command) if c and not shutil.which(c[0])]
        return f"there is no program {absent[0]!r} on PATH" if absent else super().missing()

    def versions(self) -> dict[str, str]:
        done = self._run([self.command[0], "--version"])
        return {self.name: (done.stdout.split() or ["unknown"])[-1]}

    def load(self, model: OnnxModel) -> OnnxModel:
        return model

    def build(self, module: OnnxModel, level: str) -> Program:
        folder = tempfile.TemporaryDirectory(prefix=f"nnfuzz-{self.name}-")
        places = {n: str(Path(folder.name) / n) for n in ("model", "program", "inputs", "outputs")}
        Path(places["model"]).write_bytes(module)
        if self.compile_command:
            self._call(self.compile_command, {**places, "level": level})

        def program(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            for name in ("inputs", "outputs"):
                shutil.rmtree(Path(folder.name) / name, ignore_errors=True)
                (Path(folder.name) / name).mkdir()
            self.write(Path(places["inputs"]), inputs)
            self._call(self.command, {**places, "level": level})
            return self.read(Path(places["outputs"]), [*module.outputs])

        return program

    def write(self, folder: Path, inputs: Mapping[str, np.ndarray]) -> None:
        """Writes the inputs as the command reads them."""
        for name, array in inputs.items():
            np.save(folder / f"{quote(name, safe='')}.npy", array)

    def read(self, folder: Path, names: list[str]) -> dict[str, np.ndarray]:
        """The outputs that the command has written, by name; those that it has not are left out."""
        files = {name: folder / f"{quote(name, safe='')}.npy" for name in names}
        return {name: np.load(file) for name, file in files.items() if file.is_file()}

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, capture_output=True, text=True, errors="replace", env=safe_environment()
        )

    def _call(self, command: tuple[str, ...], places: Mapping[str, str]) -> None:
        """Raises: CommandError."""
        words = [*command]
        for name, place in places.items():
            words = [word.replace(f"{{{name}}}", place) for word in words]
        done = self._run(words)
        if done.returncode < 0:
            print(done.stderr, file=sys.stderr, flush=True)
            os.kill(os.getpid(), -done.returncode)
        if done.returncode:
            raise CommandError(done.stderr.strip() or f"exited with code {done.returncode}")
