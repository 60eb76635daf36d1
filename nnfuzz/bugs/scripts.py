"""Runs the scripts of bugs, each in a process of its own with limits of time and memory: in this
Python, in another one, or in a release that is installed for the purpose.
"""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
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
from nnfuzz.base.text import one_line
from nnfuzz.bugs.bug import Bug, ScriptResult

SECONDS, BYTES = 600.0, 12 << 30
"""Limits of one script: of wall time, and of address space."""
CANNOT_RUN = 125
"""Exit code of a script whose compiler is absent or too old, or fails in another way."""
SIMILAR = 0.6
"""Similarity from which on two messages count as equal. Another release has other line numbers or
one more sentence; where it refuses the opset, the message differs completely."""
_OBSERVED = re.compile(r"Seen at [^:]*: (?P<before>.*?)\n\w+: (?P<now>\w.*)", re.DOTALL)
"""The lines in which a script prints an error: as it was observed, and as it is now."""
_COMPARED = 500  # characters of a message: its beginning names the error
_ABSENT = ("ModuleNotFoundError", "ImportError")
_LACKING = re.compile(r"cannot run: (?:ModuleNotFound|Import|Attribute)Error\b")
"""Message of a script whose compiler is absent or too old; other errors are the compiler's."""


@dataclass(frozen=True)
class ScriptRun:
    """What one run of a script has shown. message: its last line. seconds: wall time."""

    result: ScriptResult
    message: str
    seconds: float = 0.0


def run_script(
    script: Path,
    python: str | Path = sys.executable,
    same_release: bool = False,
    seconds: float = SECONDS,
) -> ScriptRun:
    """Runs the script of a bug in an empty folder.

    same_release: whether the script is known to reproduce in this release; another one may fail for
    another reason than the bug, such as an opset that it refuses.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = run_program(
                [python, script.resolve()],
                {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
                cwd=folder,
                timeout=seconds,
                preexec_fn=limited,
            )
        except subprocess.TimeoutExpired:
            found = ScriptResult.OTHERWISE, f"no end within {seconds:.0f} s"
        else:
            found = _read(done, same_release)
    return ScriptRun(found[0], one_line(found[1]), time.monotonic() - start)


def limited() -> None:
    """Sets the limits, in place of those of the command that runs the script."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(done: subprocess.CompletedProcess[str], same_release: bool) -> tuple[ScriptResult, str]:
    """The result of a script that has ended, and its last line."""
    if done.returncode < 0:
        return ScriptResult.REPRODUCES, f"ended by {signal.Signals(-done.returncode).name}"
    errors, printed = done.stderr.strip().splitlines(), done.stdout.strip().splitlines()
    last = (errors or printed or [""])[-1]
    if last.startswith(_ABSENT) or (done.returncode == CANNOT_RUN and _LACKING.search(last)):
        return ScriptResult.CANNOT_RUN, last
    if done.returncode == CANNOT_RUN:  # as well for the same error in the words of another release
        similar = _OBSERVED.search(done.stdout) is not None and _similar(done.stdout)
        return (ScriptResult.REPRODUCES if similar else ScriptResult.OTHERWISE), last
    if "Traceback (most recent call last)" in done.stderr and not printed:
        return ScriptResult.OTHERWISE, last
    message = (printed or [""])[-1]
    if not done.returncode:
        return ScriptResult.RIGHT, message
    similar = same_release or _similar(done.stdout)
    return (ScriptResult.REPRODUCES if similar else ScriptResult.OTHERWISE), message


def _similar(printed: str) -> bool:
    """Whether a script prints no error, or one like that with which the bug was observed."""
    match = _OBSERVED.search(printed)
    if match is None:
        return True
    before, now = (re.sub(r"\d+", "N", match[k])[:_COMPARED] for k in ("before", "now"))
    return SequenceMatcher(None, before, now, autojunk=False).ratio() >= SIMILAR


_ASKING = 60.0
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
                done = run_program([python, "-c", _ASK, self.package(bug)], timeout=_ASKING)
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
