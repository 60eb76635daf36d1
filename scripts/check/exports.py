"""Runs the tests that `nnfuzz bugs export` makes of a ledger, as they are written.

    python -m scripts.check.exports
    python -m scripts.check.exports onnxruntime openvino --without

Each bug whose script reproduces with what is installed is exported in the style of its compiler's
suite, and its test is run by pytest in a process of its own: it has to fail, or to end the process,
and not because it cannot be imported. With --without it has to pass in a release that the ledger
knows to be right, in an environment that is made for it (package index). Prints a table by system,
and what is not as wanted; exits with 1 if it is less than 95 % of the exported tests.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer
from packaging.version import Version

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import ReleaseError
from nnfuzz.bugs.bug import Bug, BugError, ScriptResult
from nnfuzz.bugs.environments import Interpreters
from nnfuzz.bugs.exporting import STYLES, exported_test, style_named
from nnfuzz.bugs.ledger import Ledger
from nnfuzz.bugs.scripts import run_script

WANTED = 0.95
SECONDS = 600.0
SYSTEMS = ("onnxruntime", "openvino", "tvm", "torch", "onnxslim", "onnxsim", "onnxoptimizer")
FAILED, PASSED = "fails", "passes"


def ran(text: str, python: str) -> str:
    """What a test does: FAILED, PASSED, or the last line of what went wrong before it began."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "test_exported.py"
        file.write_text(text)
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:nnfuzz"]
        try:
            done = subprocess.run(
                [*command, "-c", "/dev/null", "--rootdir", folder, str(file)],
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return FAILED  # a compiler that does not come back
    if done.returncode < 0 or "1 failed" in done.stdout:
        return FAILED
    if "1 passed" in done.stdout:
        return PASSED
    return (done.stdout.strip() or done.stderr.strip() or "nothing").splitlines()[-1]


def style_of(bug: Bug) -> str:
    return bug.system if bug.system in STYLES else "pytest"


@dataclass
class Exports:
    """Exports bugs of a ledger, runs the tests, and counts. without: in a right release as well."""

    ledger: Ledger
    interpreters: Interpreters
    without: bool
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def examine(self, name: str, bug: Bug) -> Iterator[str]:
        """Lines for what is not as wanted of one bug."""
        own = self.counts.setdefault(name.partition("/")[0], Counter())
        own["bugs"] += 1
        try:
            _, text = exported_test(self.ledger, name, style_named(style_of(bug)), xfail=False)
        except BugError as error:
            own["no test"] += 1
            yield f"{name}: no test: {error}"
            return
        own["exported"] += 1
        here = run_script(self.ledger.script(name), same_release=True)
        if here.result is ScriptResult.REPRODUCES:
            own["with the bug"] += 1
            did = ran(text, sys.executable)
            own["fail with it"] += did == FAILED
            if did != FAILED:
                yield f"{name}: {did} with the bug"
        if self.without:
            yield from self._without(name, bug, text, own)

    def _without(self, name: str, bug: Bug, text: str, own: Counter[str]) -> Iterator[str]:
        right = [r for r, result in bug.releases.items() if result is ScriptResult.RIGHT]
        if not right:
            return
        release = max(right, key=Version)
        needing = replace(bug, needs=(*bug.needs, "pytest"))
        try:
            python = self.interpreters.of_release(release)(needing).python
        except ReleaseError as error:
            yield f"{name}: {error}"
            return
        own["without the bug"] += 1
        did = ran(text, python)
        own["pass without it"] += did == PASSED
        if did != PASSED:
            yield f"{name}: {did} in {release}, which is right"


def main(
    chosen: Annotated[list[str] | None, typer.Argument(help="Systems, or bugs.")] = None,
    ledger: Annotated[Path, typer.Option(help="Whose bugs are exported.")] = Path("docs/bugs"),
    without: Annotated[bool, typer.Option(help="Runs them in right releases as well.")] = False,
) -> None:
    book = Ledger.opened(ledger)
    exports = Exports(book, Interpreters(BackendRegistry.discover(), print), without)
    for name, bug in book.chosen(chosen or SYSTEMS).items():
        for line in exports.examine(name, bug):
            print(line, flush=True)
    columns = list(dict.fromkeys(what for own in exports.counts.values() for what in own))
    print(f"{'':16}" + "".join(f"{what:>18}" for what in columns))
    total: Counter[str] = sum(exports.counts.values(), Counter())
    for system, own in {**exports.counts, "all": total}.items():
        print(f"{system:16}" + "".join(f"{own[what]:18}" for what in columns))
    tried = total["with the bug"] + total["without the bug"]
    good = total["fail with it"] + total["pass without it"]
    print(f"as wanted: {good} of {tried}")
    sys.exit(good < WANTED * tried or not tried)


if __name__ == "__main__":
    typer.run(main)
