"""The environments in which scripts of bugs run: this Python, another Python, or a release that is
installed for the purpose."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import (
    WORKER,
    ReleaseError,
    environment_of,
    modules_of,
    package_of,
    requirements,
)
from nnfuzz.base.programs import run_program
from nnfuzz.bugs.bug import Bug
from nnfuzz.bugs.scripts import ScriptRun, run_script

SECONDS = 60.0
"""Seconds for another Python to print its release."""
_ASK = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


@dataclass(frozen=True)
class Interpreter:
    """An interpreter, and the release of the bug's package there; "" if it is not there."""

    python: str
    release: str


Choose = Callable[[Bug], Interpreter]
"""Where the script of a bug runs. Raises: ReleaseError."""


@dataclass(frozen=True)
class Interpreters:
    """Finds and makes the environments for the scripts of bugs. note: of what takes long.

    failed: environments that could not be made, with the reason; each is tried once.
    """

    registry: BackendRegistry
    note: Callable[[str], None]
    failed: dict[tuple[str, ...], ReleaseError] = field(default_factory=dict)

    def package(self, bug: Bug) -> str:
        """The package whose releases count for a bug: its own, or else that of its backend."""
        if bug.package or bug.system not in self.registry.names():
            return bug.package or bug.system
        return package_of(self.registry.get(bug.system)) or bug.system

    def of_python(self, python: str = sys.executable) -> Choose:
        """An interpreter, with whatever release is there."""

        def choose(bug: Bug) -> Interpreter:
            try:
                done = run_program([python, "-c", _ASK, self.package(bug)], timeout=SECONDS)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise ReleaseError(f"--python {python} cannot be run: {error}") from error
            release = done.stdout.strip().partition("+")[0]  # "+cpu" names no other release
            return Interpreter(python, release if not done.returncode else "")

        return choose

    def of_release(self, release: str) -> Choose:
        """A release in an environment of its own, which is made if there is none."""

        def choose(bug: Bug) -> Interpreter:
            here, package = self.of_python()(bug), self.package(bug)
            if here.release == release:
                return here
            packages: tuple[str, ...] = (f"{package}=={release}", *WORKER)
            modules: tuple[str, ...] = ("numpy", "onnx")
            if bug.system in self.registry.names():
                backend = self.registry.get(bug.system)
                if backend.distribution == package:
                    packages, modules = requirements(backend, release), modules_of(backend)
            packages = (*packages, *bug.needs)
            if packages in self.failed:
                raise self.failed[packages]
            try:
                made = environment_of(package, release, packages, modules, self.note)
            except ReleaseError as error:
                self.failed[packages] = error
                raise
            return Interpreter(str(made.python), release)

        return choose

    def confirm(self, script: Path, bug: Bug) -> ScriptRun:
        """Runs the script of a bug in the newest release in which it was seen."""
        release = bug.last_bad_release
        there = (self.of_release(release) if release else self.of_python())(bug)
        return run_script(script, there.python, same_release=True)
