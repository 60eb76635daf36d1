"""Disturbs a campaign at random moments, and checks that nothing is lost, counted twice, or left
behind.

One campaign runs undisturbed. Another one with the same settings meets faults at random moments:
its workers, producers, fork servers and parent are killed with SIGKILL (the parent continues with
--resume), one job loses several processes in a row, processes stand still for a while as behind a
partition, the disk is full or slow, the clock jumps. In the end both must have the same tests,
outcomes and findings, each once and with its folder, with equal models and arrays, and no process
or temporary file may be left. Exits with 1 otherwise.

    python -m scripts.torment.chaos --faults 200 -- --backend onnxruntime --tests 400

For a full disk the campaign lies on a small file system in memory, which takes root to mount. For a
slow disk the writer stands still nine tenths of the time. The clock is Python's, changed by a
module that every process of the campaign imports. --process NAME=PATTERN names further processes to
kill by their command line.

With --planted, standstills are planted one after the other instead (planted/standstills.py); the
campaign's message about each and its losses are printed.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.library.campaign import refuse_finished
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.sandbox.forkserver import MARK
from nnfuzz.store.store import FILE, Store, StoreError
from planted import standstills
from scripts.campaigns import FUZZ

OURS, CLOCK = "NNFUZZ_CHAOS", "NNFUZZ_CHAOS_CLOCK"
PARENT, SERVER, PRODUCER, WORKER = "parent", "fork server", "producer", "worker"
REDUCER = "reducer"
AGAIN = "the same again and again"
STILL, SLOW, FULL, JUMP = "standstill", "slow disk", "full disk", "jump of the clock"
STOP = "stop for good"
WEIGHTS = {PARENT: 2, SERVER: 3, PRODUCER: 3, WORKER: 6, REDUCER: 1}
WEIGHTS |= {AGAIN: 2, STILL: 3, STOP: 1, SLOW: 1, FULL: 1, JUMP: 2}
"""How often each fault occurs beside the others; the first five are kills."""
MOST, LINE = 20, 500  # troubles that are shown, and characters of each
GONE_SECONDS = 20.0  # until everything has ended behind a parent that was killed
MOST_AGAIN, AGAIN_SECONDS = 6, 3.0
"""Most kills of processes that run one job, and the wait for the next such process in seconds."""
STILL_SECONDS, FULL_SECONDS, SLOW_SECONDS = 3.0, 1.5, 2.0  # at most, of a fault that lasts
JUMP_SECONDS = 10 * 365 * 86400.0
NAMED = 3  # how often each kind of other processes is killed, beside WEIGHTS
BINARY = (".onnx", ".npz")
PASSING = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?|0x[0-9a-f]+|[-+]?\d+(\.\d+)?e-?\d+|[-+]?\d+\.\d+"
)
"""Parts of texts in which equal findings differ: times of day, addresses, seconds of a run."""
PATIENCE = 900.0  # seconds without a new test, after which a campaign is taken to be stuck
DISK_BYTES = 256 << 20

SKEW = f"""
import os, time
_real = time.time
def _skewed():
    try:
        with open(os.environ["{CLOCK}"]) as file:
            return _real() + float(file.read() or 0)
    except (OSError, ValueError):
        return _real()
if "{CLOCK}" in os.environ:
    time.time = _skewed
"""
"""The source of sitecustomize.py, which Python imports when it starts."""

Start = Callable[[Path, bool, dict[str, str]], "subprocess.Popen[bytes]"]
"""Starts or resumes the campaign in a folder, in an environment."""


@dataclass
class Torment:
    """The faults of a campaign, its sessions, and what went wrong."""

    faults: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    trouble: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Scene:
    """A running campaign. scratch: folder of its temporary files and of the clock. disk: its own
    file system, if any. named: kind of other processes -> pattern of their command lines.
    """

    process: subprocess.Popen[bytes]
    token: str
    folder: Path
    scratch: Path
    disk: Path | None
    rng: random.Random
    named: Mapping[str, str]

    def of(self, kind: str) -> list[int]:
        """Process ids of one kind."""
        if kind == PARENT:
            return [self.process.pid]
        return [pid for pid, what in family(self.token, self.named).items() if what == kind]


# -- processes ------------------------------------------------------------------------------------


def family(token: str, named: Mapping[str, str] | None = None) -> dict[int, str]:
    """Process ids of a campaign -> their kinds; helpers of compilers count as workers."""
    marks: dict[int, tuple[int, bytes]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            environment = (entry / "environ").read_bytes().split(b"\0")
            if f"{OURS}={token}".encode() in environment:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                mark = next((v for v in environment if v.startswith(MARK.encode())), b"")
                marks[int(entry.name)] = parent, mark
    return {pid: _role(pid, marks, named or {}) for pid in marks}


def _role(pid: int, marks: Mapping[int, tuple[int, bytes]], named: Mapping[str, str]) -> str:
    """The kind of a process, by the marks of fork servers on it and on its parent."""
    command = _text(pid, "cmdline").replace("\0", " ")
    for name, pattern in named.items():
        if re.search(pattern, command):
            return name
    parent, mark = marks[pid]
    if not mark:
        return PARENT
    if marks.get(parent, (0, b""))[1] != mark:
        return SERVER
    if any(above == pid and other != mark for above, other in marks.values()):
        return REDUCER  # it has fork servers of its own
    return PRODUCER if "libtorch" in _text(pid, "maps") else WORKER


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


# -- faults ---------------------------------------------------------------------------------------


def fault(kind: str, scene: Scene) -> bool:
    """Causes a fault; returns whether it was possible."""
    others = {
        AGAIN: _kill_again,
        STILL: _stand_still,
        STOP: _stop,
        SLOW: _slow,
        FULL: _fill,
        JUMP: _jump,
    }
    if kind in others:
        return others[kind](scene)
    chosen = scene.of(kind)
    if not chosen or scene.process.poll() is not None:
        return False
    with suppress(ProcessLookupError):
        os.kill(scene.rng.choice(chosen), signal.SIGKILL)
    return True


def _kill_again(scene: Scene) -> bool:
    """Kills the process of a job, then the next process of that job, and so on."""
    kind = scene.rng.choice((PRODUCER, WORKER, SERVER))
    killed: set[int] = set()
    for _ in range(scene.rng.randint(2, MOST_AGAIN)):
        end = time.monotonic() + AGAIN_SECONDS
        while not (left := sorted({*scene.of(kind)} - killed)) and time.monotonic() < end:
            time.sleep(0.01)
        if left and scene.process.poll() is None:
            killed.add(chosen := scene.rng.choice(left))
            with suppress(ProcessLookupError):
                os.kill(chosen, signal.SIGKILL)
    return bool(killed)


def _stand_still(scene: Scene) -> bool:
    """Stops some process for a while, and lets it continue."""
    pids = sorted(family(scene.token, scene.named))
    return bool(pids) and _stopped(
        scene.rng.choice(pids), scene.rng.uniform(0.1, STILL_SECONDS), 0.0, 1
    )


def _stop(scene: Scene) -> bool:
    """Stops, for good, some process whose answer the parent awaits."""
    found = family(scene.token, scene.named)
    pids = sorted(pid for pid, kind in found.items() if kind != PARENT)
    if not pids:
        return False
    with suppress(ProcessLookupError):
        os.kill(scene.rng.choice(pids), signal.SIGSTOP)
    return True


def _slow(scene: Scene) -> bool:
    """Stops the writer for nine tenths of the time."""
    return _stopped(scene.process.pid, 0.18, 0.02, round(SLOW_SECONDS / 0.2))


def _stopped(pid: int, still: float, running: float, times: int) -> bool:
    try:
        for _ in range(times):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(still)
            os.kill(pid, signal.SIGCONT)
            time.sleep(running)
    except ProcessLookupError:
        return False
    return True


def _fill(scene: Scene) -> bool:
    """Fills the campaign's disk for a while."""
    if scene.disk is None or not _begun(scene.folder):
        return False
    ballast = scene.disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)
    end = time.monotonic() + scene.rng.uniform(0.3, FULL_SECONDS)
    while scene.process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    ballast.unlink()
    return True


def _jump(scene: Scene) -> bool:
    """Sets the clock to any time within some years."""
    span = scene.rng.choice((5.0, 3600.0, JUMP_SECONDS))
    (scene.scratch / "clock").write_text(str(scene.rng.uniform(-span, span)))
    return True


# -- campaigns ------------------------------------------------------------------------------------


def torment(
    start: Start,
    folder: Path,
    faults: int,
    seed: int,
    pause: float = 1.0,
    disk: Path | None = None,
    named: Mapping[str, str] | None = None,
    weights: Mapping[str, int] = WEIGHTS,
) -> Torment:
    """Runs a campaign to its end under `faults` faults. pause: mean seconds between two faults.
    disk: the folder's own file system. weights: relative frequency of each kind of fault.
    """
    rng, done = random.Random(seed), Torment()
    token, scratch = f"{os.getpid()}-{folder}", Path(tempfile.mkdtemp(prefix="chaos-"))
    environment = _environment(token, scratch)
    full, good = 0, {0, 1}
    try:
        while not _is_finished(folder):
            resume = _is_there(folder)
            with start(folder, resume, environment) as process:
                done.sessions += 1
                # The session before may have had no room left for its last words alone.
                good = {0, 1, 2} if done.faults[FULL] > full else {0, 1}
                full = done.faults[FULL]
                scene = Scene(process, token, folder, scratch, disk, rng, named or {})
                _disturb(scene, faults, pause, weights, done)
            if left := _survivors(token):
                done.trouble.append(f"still alive: {left}")
            if process.returncode != -signal.SIGKILL and full == done.faults[FULL]:
                if process.returncode not in good:
                    done.trouble.append(f"exit code {process.returncode}")
                if files := [path.name for path in (scratch / "tmp").iterdir()]:
                    done.trouble.append(f"temporary files: {files}")
                break
        return done
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _environment(token: str, scratch: Path) -> dict[str, str]:
    """The environment of a campaign, with its mark and the modules that Python imports first."""
    (scratch / "sitecustomize.py").write_text(SKEW)
    (scratch / "tmp").mkdir()
    path = os.pathsep.join(filter(None, (str(scratch), os.environ.get("PYTHONPATH"))))
    places = {"TMPDIR": "tmp", CLOCK: "clock"}
    found = {name: str(scratch / place) for name, place in places.items()}
    return {**os.environ, OURS: token, "PYTHONPATH": path, **found}


def _disturb(
    scene: Scene, faults: int, pause: float, weights: Mapping[str, int], done: Torment
) -> None:
    """Causes faults until the parent ends or there were enough; waits for its end."""
    weights = {**dict.fromkeys(scene.named, NAMED), **weights}
    while done.faults.total() < faults and scene.process.poll() is None:
        time.sleep(scene.rng.expovariate(1 / pause))
        kind = scene.rng.choices([*weights], [*weights.values()])[0]
        if scene.process.poll() is None and fault(kind, scene):
            done.faults[kind] += 1
            if kind == PARENT:
                break
    _await_end(scene, done)


def _await_end(scene: Scene, done: Torment) -> None:
    count, since = -1, time.monotonic()
    while True:
        with suppress(subprocess.TimeoutExpired):
            scene.process.wait(5.0)
            return
        if (now := _recorded(scene.folder)) != count:
            count, since = now, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            done.trouble.append(f"no test in {PATIENCE:.0f} s behind {dict(done.faults)}")
            scene.process.kill()


def _recorded(folder: Path) -> int:
    """Number of tests of a campaign; -1 before it has begun."""
    with suppress(StoreError, OSError), Store.open(folder, write=False) as store:
        return store.tests.count()
    return -1


def _is_there(folder: Path) -> bool:
    """Whether there is a campaign to resume. Files of one that was killed before it had begun are
    removed.
    """
    if folder.exists() and not (folder / FILE).exists():
        shutil.rmtree(folder)
    return folder.exists()


def _is_finished(folder: Path) -> bool:
    """Whether a campaign whose parent was killed had come to its limits and its summary before."""
    try:
        with suppress(StoreError, OSError), Store.open(folder, write=False) as store:
            refuse_finished(store, CampaignConfig.from_json(store.config()))
    except ConfigError:
        return True
    return False


def _begun(folder: Path) -> bool:
    return _recorded(folder) >= 0


def _survivors(token: str) -> dict[int, str]:
    """Processes that remain of a campaign after time to end; stopped ones are continued first."""
    for pid in family(token):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    end = time.monotonic() + GONE_SECONDS
    while (left := family(token)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def differences(calm: Path, tormented: Path) -> Iterator[str]:
    """Differences between a disturbed campaign and an undisturbed one."""
    with Store.open(calm, write=False) as one, Store.open(tormented, write=False) as two:
        before, after = ({row.index: row for row in store.tests.rows()} for store in (one, two))
        if missing := before.keys() ^ after.keys():
            yield f"tests that only one has: {sorted(missing)[:10]}"
        for index in sorted(before.keys() & after.keys()):
            told = [(r.digest, r.status, r.outcomes) for r in (before[index], after[index])]
            if told[0] != told[1]:
                yield f"test {index}: {told[0]} and {told[1]}"
        found = [{row.signature: row for row in store.signatures.rows()} for store in (one, two)]
        if found[0].keys() != found[1].keys():
            yield f"findings that only one has: {sorted(found[0].keys() ^ found[1].keys())}"
        for signature in sorted(found[0].keys() & found[1].keys()):
            rows = found[0][signature], found[1][signature]
            there = calm / rows[0].folder, tormented / rows[1].folder
            if all(folder.is_dir() for folder in there) and (names := _differing(*there)):
                yield f"files of {signature}, test {rows[0].test} and {rows[1].test}: {names}"
        seen = [set(store.occurrences.rows()) for store in (one, two)]
        if seen[0] != seen[1]:
            yield f"occurrences that only one has: {sorted(map(str, seen[0] ^ seen[1]))[:10]}"
        clock = two.sessions.clock()
        times = [clock(at) for at, _ in two.tests.recorded_after(0.0, -1, -1)]
        wall = two.sessions.seconds_before()
        if times and not 0 <= min(times) <= max(times) <= wall + 1:
            yield f"tests from {min(times):.0f} to {max(times):.0f} s of {wall:.0f}"
        folders = [row.folder for row in two.signatures.rows()]
    if len(set(folders)) < len(folders):
        yield "two findings in one folder"
    there = {f"{top}/{path.name}" for top in ("findings", "suspects", "duplicates")
             for path in (tormented / top).glob("*")}  # fmt: skip
    if wrong := set(folders) ^ there:
        yield f"folders without a finding, or the reverse: {sorted(wrong)}"


def _differing(one: Path, two: Path) -> list[str]:
    """The files in which two folders of a finding differ, apart from seconds and addresses in
    texts."""
    names = {path.name for top in (one, two) for path in top.glob("*") if path.is_file()}
    return sorted(n for n in names if _content(one / n) != _content(two / n))


def _content(path: Path) -> bytes | str | None:
    if not path.exists():
        return None
    data = path.read_bytes()
    return data if path.suffix in BINARY else PASSING.sub("", data.decode(errors="replace"))


def fuzz(arguments: list[str]) -> Start:
    """Starts `nnfuzz fuzz` with some arguments."""

    def start(folder: Path, resume: bool, env: dict[str, str]) -> subprocess.Popen[bytes]:
        command = [*FUZZ, "--quiet", "--out", str(folder)]
        command += ["--resume"] if resume else arguments
        return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)

    return start


def compared(
    start: Start,
    folder: Path,
    faults: int,
    seed: int,
    pause: float = 1.0,
    named: Mapping[str, str] | None = None,
    weights: Mapping[str, int] = WEIGHTS,
) -> Torment:
    """Runs an undisturbed campaign and a disturbed one; returns the faults with all trouble."""
    calm = torment(start, folder / "calm", 0, seed)
    (folder / "disk").mkdir()
    with small_disk(folder / "disk") as disk:
        tormented = folder / "disk" / "tormented"
        done = torment(start, tormented, faults, seed, pause, disk, named, weights)
        done.trouble += calm.trouble
        done.trouble += differences(folder / "calm", tormented)
        shutil.copytree(tormented, folder / "tormented")
    return done


def planted(arguments: list[str], folder: Path, seed: int, only: str) -> int:
    """Plants one standstill after the other and prints the results. Returns the number of those
    that were not reported or lost something.
    """
    wrong, calm = 0, folder / "calm"
    _with(standstills.Planted("nothing"), calm, arguments, seed)
    for number, chosen in enumerate(p for p in standstills.PLANTED if only in p.name):
        out = folder / str(number)
        begun = time.monotonic()
        happened, code = _with(chosen, out, arguments, seed)
        said = standstills.messages(out.with_suffix(".log"))
        lost = [*differences(calm, out)] if chosen.comparable else []
        wrong += not (happened and said and not lost)
        print(f"{chosen.name}: {'' if happened else 'could not be planted; '}exit code {code}, "
              f"{time.monotonic() - begun:.0f} s", *said, *(lost or ["nothing lost"]),
              sep="\n    ", flush=True)  # fmt: skip
    return wrong


def _with(
    chosen: standstills.Planted, out: Path, arguments: list[str], seed: int
) -> tuple[bool, int]:
    """Returns whether the standstill could be planted, and the exit code of the campaign."""
    scratch = Path(tempfile.mkdtemp(prefix="chaos-"))
    token, log = f"{os.getpid()}-{out}", out.with_suffix(".log")
    try:
        standstills.files(scratch, chosen)
        log.parent.mkdir(parents=True, exist_ok=True)
        more = [argument.format(scratch) for argument in chosen.arguments]
        if "--backend" in more:  # in place of those that are named
            place = next(i for i, word in enumerate(arguments) if word in ("-b", "--backend"))
            arguments = [*arguments[:place], *arguments[place + 2 :]]
        command = [*FUZZ, "--out", str(out)]
        command += [*arguments, "--seed", str(seed), *more]
        with (
            log.open("wb") as stream,
            subprocess.Popen(
                command, env=_environment(token, scratch), stdout=stream, stderr=stream
            ) as process,
        ):
            scene = Scene(process, token, out, scratch, None, random.Random(seed), {})
            happened = chosen.name == "nothing" or standstills.plant(chosen, scene, _recorded)
            code = process.wait(2 * PATIENCE)
        _survivors(token)
        return happened or bool(chosen.plugin), code
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path | None]:
    """Mounts a file system in memory at a folder; None if that is not possible."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "chaos", str(place)]
    try:
        subprocess.run(mount, check=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def main(
    arguments: Annotated[list[str], typer.Argument(help="Of nnfuzz fuzz, behind --.")],
    faults: Annotated[int, typer.Option(min=1)] = 100,
    seed: int = 0,
    pause: Annotated[float, typer.Option(help="Mean seconds between two faults.")] = 1.0,
    process: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATTERN", help="Another kind of process to be killed."),
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Folder for both campaigns.")] = None,
    planted_: Annotated[
        str | None, typer.Option("--planted", help="Standstills with this in their name, or ''.")
    ] = None,
) -> None:
    if planted_ is not None:
        with tempfile.TemporaryDirectory() as scratch:
            raise typer.Exit(bool(planted(arguments, keep or Path(scratch), seed, planted_)))
    named = dict(text.split("=", 1) for text in process or ())
    with tempfile.TemporaryDirectory() as scratch:
        folder, begun = keep or Path(scratch), time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        start = fuzz([*arguments, "--seed", str(seed)])
        done = compared(start, folder, faults, seed, pause, named)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(done.faults.items()))
    seconds = time.monotonic() - begun
    print(f"{done.faults.total()} faults ({told}), {done.sessions} sessions, {seconds:.0f} s")
    trouble = [text[:LINE] for text in done.trouble[:MOST]]
    print("\n".join(trouble) or "nothing lost, nothing counted twice, nothing left behind")
    raise typer.Exit(bool(done.trouble))


if __name__ == "__main__":
    typer.run(main)
