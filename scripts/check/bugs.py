"""Runs the scripts of docs/bugs and lists the bugs that remain.

Each script runs in a process of its own, in another folder, with limits of time and memory, so that
a crash or hang costs one line. Exits with 1 if a bug does not reproduce in the version in which it
was found. Scripts whose system is not installed are listed and skipped.

    python -m scripts.check.bugs
    python -m scripts.check.bugs openvino tvm/atan-intrinsic
    python -m scripts.check.bugs onnxruntime --release 1.30.0    (made if it is not there)
"""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import home_of

BUGS = Path(__file__).parents[2] / "docs" / "bugs"
SECONDS, BYTES = 600, 12 << 30
DISTRIBUTIONS = {
    "tvm": "apache-tvm",
    "iree": "iree-base-compiler",
    "tensorrt-rtx": "tensorrt-rtx-cu13",
}
"""Names of systems in package indexes, where they differ from the names in scripts."""
_SAID = re.compile(r"Seen at [^:]*: (?P<seen>.*?)\n\w+: (?P<now>\w.*)", re.DOTALL)
"""The lines in which a script prints an error: as found, and as it is now."""
ALIKE = 0.6
"""Similarity from which on two messages count as equal. Another release has other line numbers or
one more sentence; where it refuses the opset, the message differs completely."""
_NEEDS = re.compile(r"^Needs (\S+) (\S+?)[,;]", re.MULTILINE)


class State(StrEnum):
    """The result of a script. OTHER: it fails for another reason than the bug."""

    REPRODUCES = "reproduces"
    FIXED = "fixed"
    OTHER = "fails otherwise"
    ABSENT = "cannot run here"


@dataclass(frozen=True)
class Bug:
    """A script and the version of a system in which it was found."""

    script: Path
    system: str
    found_in: str

    @property
    def name(self) -> str:
        return str(self.script.parent.relative_to(BUGS))


def bugs(wanted: list[str]) -> Iterator[Bug]:
    """The bugs of the wanted systems, or of "SYSTEM/NAME"; all if none is wanted."""
    for script in sorted(BUGS.glob("*/*/repro.py")):
        name = str(script.parent.relative_to(BUGS))
        if not wanted or any(name == want or name.startswith(f"{want}/") for want in wanted):
            needs = _NEEDS.search(script.read_text())
            system, found_in = needs.groups() if needs else (script.parent.parent.name, "")
            yield Bug(script, system, found_in.partition("-")[0])


def installed(system: str) -> str:
    """The version of a system that is installed; "" if none is."""
    try:
        return version(DISTRIBUTIONS.get(system, system))
    except PackageNotFoundError:
        return ""


def place_of(system: str, release: str) -> tuple[str, str]:
    """The interpreter with a system, and its version there; "" if it is not installed.

    Raises: RegistryError if there is no environment for a release, and none can be made.
    """
    if not release:
        return sys.executable, installed(system)
    home = home_of(BackendRegistry.discover().get(system), release)
    return str(home.python) if home else sys.executable, release


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def check(bug: Bug, python: str = sys.executable, elsewhere: bool = False) -> tuple[State, str]:
    """Runs the script. Returns its result and its last line.

    elsewhere: whether the version is another one than that of the bug, which may fail for another
    reason.
    """
    with tempfile.TemporaryDirectory() as folder:
        how = {"cwd": folder, "capture_output": True, "text": True, "errors": "replace"}
        command = [python, str(bug.script)]
        try:
            done = subprocess.run(command, timeout=SECONDS, preexec_fn=limited, **how)
        except subprocess.TimeoutExpired:
            return State.OTHER, f"no end within {SECONDS} s"
    if done.returncode < 0:
        return State.REPRODUCES, f"ended by {signal.Signals(-done.returncode).name}"
    lines = (done.stdout + done.stderr).strip().splitlines() or [""]
    if "ModuleNotFoundError" in lines[-1]:
        return State.ABSENT, lines[-1]
    if "Traceback (most recent call last)" in done.stderr and not done.stdout.strip():
        return State.OTHER, lines[-1]
    told = done.stdout.strip().splitlines() or [""]
    if done.returncode and elsewhere and not says_the_same(done.stdout):
        return State.OTHER, told[-1]
    return State.REPRODUCES if done.returncode else State.FIXED, told[-1]


def says_the_same(printed: str) -> bool:
    """Whether a script prints no error, or the one with which the bug was found."""
    said = _SAID.search(printed)
    if said is None:
        return True
    seen, now = (re.sub(r"\d+", "N", said[k])[:500] for k in ("seen", "now"))
    return SequenceMatcher(None, seen, now, autojunk=False).ratio() >= ALIKE


def main(
    wanted: Annotated[list[str] | None, typer.Argument(metavar="[SYSTEM[/NAME]]...")] = None,
    release: Annotated[
        str, typer.Option(help="Of the named system, instead of what is here.")
    ] = "",
) -> None:
    if release and not wanted:
        raise typer.BadParameter("name the system that the release is of", param_hint="--release")
    counts: Counter[State] = Counter()
    surprises = []
    for bug in bugs(wanted or []):
        python, here = place_of(bug.system, release)
        state, told = (
            check(bug, python, here != bug.found_in)
            if here
            else (State.ABSENT, f"{bug.system} is not installed")
        )
        counts[state] += 1
        print(
            f"{bug.name}: {state} in {bug.system} {here or bug.found_in}: {told[:100]}", flush=True
        )
        if state in (State.FIXED, State.OTHER) and here == bug.found_in:
            surprises.append(bug.name)
    print(", ".join(f"{n} {state}" for state, n in counts.items()) or "there is no such bug")
    if surprises:
        print(f"found in this very version, but not shown: {', '.join(surprises)}")
    sys.exit(bool(surprises) or not counts)


if __name__ == "__main__":
    typer.run(main)
