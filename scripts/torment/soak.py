"""Fuzzes for hours and measures growth: memory by role, handles, temporary files and the disk.

    python -m scripts.torment.soak --backend onnxruntime --minutes 120 --out soak -- --set disk=1g
    python -m scripts.torment.soak --minutes 240 --out soak -- --set disk=1g       goes on up to 240
    python -m scripts.torment.soak --out soak --tell                           what it has shown

Prints a line per --every tests. Roles are the parent, its fork servers, producers (which also
judge), workers of compilers, and the reducer with its processes. Resident MB are the sum of a role,
handles those of its process with the most. Readings are kept in OUT/readings.jsonl; sessions with
the same --out are one soak. At the end, for each session and for all, it prints the slope per 1,000
tests over the last half of the readings, with its standard error. Exits with 1 if the parent grows
by more than --most MB per 1,000 tests.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import psutil
import typer

from nnfuzz.store.store import Store, StoreError
from scripts.campaigns import FUZZ

ROLES = ("parent", "servers", "producers", "workers", "reducer")
TICK_SECONDS = 5.0


@dataclass(frozen=True)
class Reading:
    """Measurements after some tests, `seconds` into a session.

    memory, handles: MB and open files by role. files: files in the temporary folder. database,
    folder: MB of campaign.sqlite with its log, and of the whole campaign.
    """

    session: int
    tests: int
    seconds: float
    memory: dict[str, float]
    handles: dict[str, int]
    files: int
    database: float
    folder: float

    def __str__(self) -> str:
        memory = ", ".join(f"{role} {size:.0f}" for role, size in self.memory.items())
        handles = ", ".join(f"{role} {count}" for role, count in self.handles.items())
        return (
            f"{self.tests} tests, {self.seconds:.0f} s; MB: {memory}; handles: {handles}; "
            f"{self.files} temporary files; database {self.database:.0f} MB of {self.folder:.0f}"
        )


def main(
    *,
    out: Annotated[Path, typer.Option(help="Folder of the soak; one that exists goes on.")],
    rest: Annotated[list[str] | None, typer.Argument(help="Options of fuzz, behind --.")] = None,
    backend: str = "onnxruntime",
    minutes: Annotated[float, typer.Option(help="Of all sessions together.")] = 12.0,
    every: Annotated[int, typer.Option(help="Tests between two lines.")] = 1000,
    most: Annotated[float, typer.Option(help="MB per 1,000 tests of the parent.")] = 0.5,
    tell: Annotated[bool, typer.Option("--tell", help="Run nothing.")] = False,
) -> None:
    log = out / "readings.jsonl"
    code = 0 if tell else _run(out, log, backend, minutes, every, rest or [])
    seen = [Reading(**json.loads(line)) for line in log.read_text().splitlines()]
    for session in sorted({reading.session for reading in seen}):
        print(f"session {session}:")
        report_growth([reading for reading in seen if reading.session == session])
    print("all:")
    raise SystemExit(int(code not in (0, 1) or report_growth(seen) > most))


def report_growth(seen: Sequence[Reading]) -> float:
    """Prints all slopes; returns the parent's in MB per 1,000 tests over the last half of the
    readings.

    Slopes of the disk are over all readings.
    """
    if len(seen) < 8:
        print(f"  {len(seen)} readings are too few to tell what grows")
        return 0.0
    half = seen[len(seen) // 2 :]
    print(f"  tests {half[0].tests} to {half[-1].tests}, per 1,000 of them:")
    for role in ROLES:
        slope, error = grown(half, lambda reading: reading.memory[role])  # noqa: B023
        handles, _ = grown(half, lambda reading: float(reading.handles[role]))  # noqa: B023
        sizes = [reading.memory[role] for reading in half]
        print(
            f"  {role:10} {slope:+7.3f} ± {error:.3f} MB (of {min(sizes):.0f} to {max(sizes):.0f}),"
            f" handles {handles:+.3f}"
        )
    files, _ = grown(half, lambda reading: float(reading.files))
    rows, _ = grown(seen, lambda reading: reading.database)
    folder, _ = grown(seen, lambda reading: reading.folder)
    print(f"  temporary files {files:+.3f}; database {rows:+.2f} MB, campaign {folder:+.2f} MB")
    return grown(half, lambda reading: reading.memory["parent"])[0]


def grown(seen: Sequence[Reading], of: Callable[[Reading], float]) -> tuple[float, float]:
    """Slope per 1,000 tests by least squares, and its standard error."""
    tests = [reading.tests / 1000 for reading in seen]
    values = [of(reading) for reading in seen]
    slope, start = statistics.linear_regression(tests, values)
    rest = sum((v - start - slope * t) ** 2 for t, v in zip(tests, values, strict=True))
    spread = sum((t - statistics.fmean(tests)) ** 2 for t in tests)
    return slope, (rest / (len(seen) - 2) / spread) ** 0.5


def _run(out: Path, log: Path, backend: str, minutes: float, every: int, rest: list[str]) -> int:
    campaign, scratch = out / "campaign", out / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    log.touch()
    again = [] if not campaign.exists() else ["--resume"]
    before = [json.loads(line)["session"] for line in log.read_text().splitlines()]
    session = max(before, default=0) + 1
    fuzz = [*FUZZ, "--quiet", "--out", str(campaign)]
    fuzz += ["--time", f"{minutes * 60:.0f}s", *(again or ["-b", backend]), *rest]
    start = time.monotonic()
    environment = {**psutil.Process().environ(), "TMPDIR": str(scratch)}
    with (
        subprocess.Popen(fuzz, env=environment, stdout=subprocess.DEVNULL) as run,
        log.open("a") as file,
    ):
        for tests in _milestones(run, campaign, every):
            seen = _reading(session, run.pid, tests, time.monotonic() - start, out)
            print(seen, flush=True)
            print(json.dumps(asdict(seen)), file=file, flush=True)
    left = [path.name for path in scratch.iterdir()]
    print(f"exit code {run.returncode}; left in the temporary folder: {left}")
    return run.returncode


def _milestones(run: subprocess.Popen, campaign: Path, every: int) -> Iterator[int]:
    """Yields the number of tests whenever `every` more are recorded, until the campaign ends."""
    due = 0
    while run.poll() is None:
        time.sleep(TICK_SECONDS)
        tests = _tests(campaign)
        if tests >= due:
            if due:
                yield tests
            due = tests - tests % every + every


def _tests(campaign: Path) -> int:
    try:
        with Store.open(campaign, write=False) as store:
            return store.tests.count()
    except StoreError:
        return 0  # not there yet, or being made


def _reading(session: int, parent: int, tests: int, seconds: float, out: Path) -> Reading:
    memory: defaultdict[str, float] = defaultdict(float)
    handles: defaultdict[str, int] = defaultdict(int)
    for role, process in _family(psutil.Process(parent)):
        try:
            memory[role] += process.memory_info().rss / 1e6
            handles[role] = max(handles[role], process.num_fds())
        except psutil.Error:
            continue
    campaign = out / "campaign"
    return Reading(
        session,
        tests,
        round(seconds, 1),
        {role: round(memory[role], 1) for role in ROLES},
        {role: handles[role] for role in ROLES},
        sum(1 for _ in (out / "tmp").rglob("*")),
        _megabytes(campaign.glob("campaign.sqlite*")),
        _megabytes(campaign.rglob("*")),
    )


def _megabytes(paths: Iterator[Path]) -> float:
    total = 0
    for path in paths:
        try:
            total += path.lstat().st_size
        except FileNotFoundError:
            continue
    return total / 1e6


def _family(parent: psutil.Process) -> Iterator[tuple[str, psutil.Process]]:
    """The campaign's processes with their roles."""
    yield "parent", parent
    for server in _children(parent):
        yield "servers", server
        role = _role(server)
        yield from ((role, process) for process in _children(server, recursive=True))


def _role(server: psutil.Process) -> str:
    """The role of a fork server's workers: the reducer has fork servers, producers have PyTorch."""
    for worker in _children(server):
        if any("nnfuzz.sandbox.zygote" in _command(process) for process in _children(worker)):
            return "reducer"
    try:
        maps = Path(f"/proc/{server.pid}/maps").read_text()
    except OSError:
        return "workers"
    return "producers" if "libtorch" in maps else "workers"


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _children(process: psutil.Process, *, recursive: bool = False) -> list[psutil.Process]:
    try:
        return process.children(recursive=recursive)
    except psutil.Error:
        return []


if __name__ == "__main__":
    typer.run(main)
