"""Fuzzes for minutes and watches what grows: memory by role, handles and temporary files.

python scripts/soak.py --backend onnxruntime --minutes 12

A line per --every tests. Roles: the parent, its fork servers, producers (which judge as well),
workers of compilers, and the reducer with all that belongs to it. Resident MB are the sum of a
role, of which "most" is the largest process. At the end: growth per 1,000 tests between the first
quarter and the end. Exit code 1 if that of the parent is above --most MB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.campaign.store import Store, StoreError

ROLES = ("parent", "servers", "producers", "workers", "reducer")
TICK_SECONDS = 0.5


@dataclass(frozen=True)
class Reading:
    """What was seen after so many tests. memory: MB by role, of all processes and of the largest.

    handles: open ones of the parent. files: in the temporary folder.
    """

    tests: int
    seconds: float
    memory: dict[str, tuple[float, float]]
    processes: int
    handles: int
    files: int

    def __str__(self) -> str:
        sizes = self.memory.items()
        roles = (f"{role} {whole:.0f} (most {most:.0f})" for role, (whole, most) in sizes)
        return (
            f"{self.tests} tests, {self.seconds:.0f} s, MB: {', '.join(roles)}; {self.processes} "
            f"processes, {self.handles} handles, {self.files} temporary files"
        )


def main() -> int:
    options = _options()
    folder = Path(options.out or tempfile.mkdtemp(prefix="nnfuzz-soak-"))
    scratch = folder / "tmp"
    scratch.mkdir(parents=True)
    fuzz = [sys.executable, "-m", "nnfuzz.cli.main", "fuzz", "-b", options.backend, "--quiet"]
    fuzz += ["--time", f"{options.minutes * 60:.0f}s", "--out", str(folder / "campaign")]
    fuzz += options.rest
    environment = {**os.environ, "TMPDIR": str(scratch)}
    start = time.monotonic()
    with subprocess.Popen(fuzz, env=environment, stdout=subprocess.DEVNULL) as run:
        seen = []
        for tests in _milestones(run, folder / "campaign", options.every):
            seen.append(_reading(run.pid, tests, time.monotonic() - start, scratch))
            print(seen[-1], flush=True)
    tests = json.loads((folder / "campaign" / "summary.json").read_text())["tests"]
    left = [path.name for path in scratch.iterdir()]
    print(f"{tests} tests, exit code {run.returncode}; left in the temporary folder: {left}")
    growth = _grew(seen)
    return int(run.returncode not in (0, 1) or growth > options.most)


def _grew(seen: list[Reading]) -> float:
    """MB per 1,000 tests by which the parent has grown since the first quarter; prints all."""
    if len(seen) < 4:
        print("too few readings to tell what grows")
        return 0.0
    first, last = seen[len(seen) // 4], seen[-1]
    growth = {}
    for role in ROLES:
        (before, _), (after, _) = first.memory[role], last.memory[role]
        growth[role] = 1000 * (after - before) / (last.tests - first.tests)
    told = ", ".join(f"{role} {value:+.2f}" for role, value in growth.items())
    print(f"MB per 1,000 tests since test {first.tests}: {told}")
    return growth["parent"]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="onnxruntime")
    parser.add_argument("--minutes", type=float, default=12.0)
    parser.add_argument("--every", type=int, default=1000, help="tests between two lines")
    parser.add_argument("--most", type=float, default=1.0, help="MB per 1,000 tests")
    parser.add_argument("--out", help="folder of the campaign; it must not exist yet")
    parser.add_argument("rest", nargs="*", help="further options of nnfuzz fuzz, behind --")
    return parser.parse_args()


def _milestones(run: subprocess.Popen, campaign: Path, every: int) -> Iterator[int]:
    """Waits until so many more tests are recorded, and so on until the campaign ends."""
    due = every
    while run.poll() is None:
        time.sleep(TICK_SECONDS)
        tests = _tests(campaign)
        if tests >= due:
            due = tests - tests % every + every
            yield tests


def _tests(campaign: Path) -> int:
    try:
        with Store.open(campaign, write=False) as store:
            return len(store.done())
    except StoreError:
        return 0  # not there yet, or being made


def _reading(parent: int, tests: int, seconds: float, scratch: Path) -> Reading:
    memory = {role: [0.0] for role in ROLES}
    for role, pid in _family(parent):
        memory[role].append(_resident(pid))
    return Reading(
        tests,
        seconds,
        {role: (sum(sizes), max(sizes)) for role, sizes in memory.items()},
        sum(len(sizes) - 1 for sizes in memory.values()),
        len(os.listdir(f"/proc/{parent}/fd")),
        sum(1 for path in scratch.rglob("*") if path.is_file()),
    )


def _family(parent: int) -> Iterator[tuple[str, int]]:
    """Role and process id of the campaign's processes."""
    yield "parent", parent
    for server in _children(parent):
        yield "servers", server
        role = _role(server)
        yield from ((role, pid) for pid in _below(server))


def _role(server: int) -> str:
    """Of the workers of a fork server: the reducer has fork servers, producers have PyTorch."""
    for worker in _children(server):
        if any("nnfuzz.execute.zygote" in _text(pid, "cmdline") for pid in _children(worker)):
            return "reducer"
    return "producers" if "libtorch" in _text(server, "maps") else "workers"


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""


def _below(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _below(child)


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(c) for task in tasks for c in (task / "children").read_text().split()]
    except OSError:
        return []


def _resident(pid: int) -> float:
    """MB, what is shared with a fork server included."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


if __name__ == "__main__":
    sys.exit(main())
