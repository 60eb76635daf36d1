"""Kills processes of a campaign at random moments: is anything lost, or left behind?

One campaign runs undisturbed. Another one with the same settings has its processes killed with
SIGKILL: workers, fork servers, and the parent, after which it goes on with --resume. In the end
both must have the same tests, outcomes and findings, each once and with its folder, and there must
be no process and no temporary file of it. Exits 1 otherwise.

    .venv/bin/python scripts/kills.py --kills 100 -- --backend onnxruntime --tests 400
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.campaign.store import Store, StoreError
from nnfuzz.execute.forkserver import MARK

OURS = "NNFUZZ_KILLS"
PARENT, SERVER, WORKER = "parent", "fork server", "worker"
MOST, LINE = 20, 500  # troubles that are shown, and characters of each
GONE_SECONDS = 20.0  # until everything has ended behind a parent that was killed
EARLY = 0.8  # share of the moments before there are workers at which nothing is killed

Start = Callable[[Path, bool, dict[str, str]], "subprocess.Popen[bytes]"]
"""Starts or resumes the campaign in a folder, in an environment."""


@dataclass
class Torment:
    """What was done to a campaign. trouble: what it did not survive."""

    kills: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    trouble: list[str] = field(default_factory=list)


def family(token: str) -> dict[int, str]:
    """Process ids of a campaign -> what they are; helpers of compilers are workers, too."""
    found: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            environment = (entry / "environ").read_bytes().split(b"\0")
            if f"{OURS}={token}".encode() in environment:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                forked = any(v.startswith(MARK.encode()) for v in environment)
                found[int(entry.name)] = f"{parent} {int(forked)}"
    kinds = {}
    for pid, told in found.items():
        parent, forked = told.split()
        above = found.get(int(parent), " 0")
        kinds[pid] = PARENT if forked == "0" else SERVER if above.endswith("0") else WORKER
    return kinds


def torment(start: Start, folder: Path, kills: int, seed: int, pause: float = 1.0) -> Torment:
    """Has a campaign finish although it is killed `kills` times. pause: mean seconds between."""
    rng, done = random.Random(seed), Torment()
    token, scratch = f"{os.getpid()}-{folder}", Path(tempfile.mkdtemp(prefix="kills-"))
    environment = {**os.environ, OURS: token, "TMPDIR": str(scratch)}
    try:
        while True:
            resume = folder.exists() and any(folder.iterdir())
            with start(folder, resume, environment) as process:
                done.sessions += 1
                _disturb(process, token, folder, kills, rng, pause, done)
            if left := _gone(token):
                done.trouble.append(f"still alive: {left}")
            if process.returncode != -signal.SIGKILL:
                if process.returncode not in (0, 1):
                    done.trouble.append(f"exit code {process.returncode}")
                if files := [path.name for path in scratch.iterdir()]:
                    done.trouble.append(f"temporary files: {files}")
                return done
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _disturb(
    process: subprocess.Popen[bytes],
    token: str,
    folder: Path,
    kills: int,
    rng: random.Random,
    pause: float,
    done: Torment,
) -> None:
    """Kills processes until the parent is hit, or enough is done; waits for its end."""
    while done.kills.total() < kills and process.poll() is None:
        time.sleep(rng.expovariate(1 / pause))
        pids = family(token)
        kind = rng.choice((PARENT, SERVER, SERVER, *[WORKER] * 5))
        if WORKER not in pids.values() and rng.random() < EARLY:
            continue
        chosen = [pid for pid, what in pids.items() if what == kind]
        if kind == PARENT and not _begun(folder):
            continue  # there is nothing to resume yet
        if chosen and process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(rng.choice(chosen), signal.SIGKILL)
                done.kills[kind] += 1
            if kind == PARENT:
                break
    process.wait()


def _begun(folder: Path) -> bool:
    try:
        with Store.open(folder, write=False) as store:
            return store.config() is not None
    except (StoreError, OSError):
        return False


def _gone(token: str) -> dict[int, str]:
    """What is left of a campaign once it had time to end."""
    end = time.monotonic() + GONE_SECONDS
    while (left := family(token)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def differences(calm: Path, killed: Path) -> Iterator[str]:
    """In what a campaign that was killed differs from one that was left alone."""
    with Store.open(calm, write=False) as one, Store.open(killed, write=False) as two:
        before, after = ({row.index: row for row in store.tests()} for store in (one, two))
        if missing := before.keys() ^ after.keys():
            yield f"tests that only one has: {sorted(missing)[:10]}"
        for index in sorted(before.keys() & after.keys()):
            told = [(r.digest, r.status, r.outcomes) for r in (before[index], after[index])]
            if told[0] != told[1]:
                yield f"test {index}: {told[0]} and {told[1]}"
        found = [{row.signature for row in store.signatures()} for store in (one, two)]
        if found[0] != found[1]:
            yield f"findings that only one has: {sorted(found[0] ^ found[1])}"
        folders = [row.folder for row in two.signatures()]
    if len(set(folders)) < len(folders):
        yield "two findings in one folder"
    there = {f"{top}/{path.name}" for top in ("findings", "suspects", "duplicates")
             for path in (killed / top).glob("*")}  # fmt: skip
    if wrong := set(folders) ^ there:
        yield f"folders without a finding, or the reverse: {sorted(wrong)}"


def fuzz(arguments: list[str]) -> Start:
    """Starts `nnfuzz fuzz` with some arguments."""

    def start(folder: Path, resume: bool, env: dict[str, str]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "nnfuzz.cli.main", "fuzz", "--quiet", "--out", str(folder)]
        command += ["--resume"] if resume else arguments
        return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)

    return start


def compared(start: Start, folder: Path, kills: int, seed: int, pause: float = 1.0) -> Torment:
    """Runs a campaign undisturbed and one that is killed; what was done, with all trouble."""
    calm = torment(start, folder / "calm", 0, seed)
    done = torment(start, folder / "killed", kills, seed, pause)
    done.trouble += calm.trouble
    done.trouble += differences(folder / "calm", folder / "killed")
    return done


def main(
    arguments: Annotated[list[str], typer.Argument(help="Of nnfuzz fuzz, behind --.")],
    kills: Annotated[int, typer.Option(min=1)] = 100,
    seed: int = 0,
    pause: Annotated[float, typer.Option(help="Mean seconds between two kills.")] = 1.0,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        done = compared(fuzz([*arguments, "--seed", str(seed)]), Path(folder), kills, seed, pause)
    told = ", ".join(f"{count} of a {kind}" for kind, count in sorted(done.kills.items()))
    seconds = time.monotonic() - begun
    print(f"{done.kills.total()} kills ({told}), {done.sessions} sessions, {seconds:.0f} s")
    print(
        "\n".join(text[:LINE] for text in done.trouble[:MOST])
        or "nothing lost, nothing left behind"
    )
    raise typer.Exit(bool(done.trouble))


if __name__ == "__main__":
    typer.run(main)
