"""Kills processes of a campaign at random moments, and checks that nothing is lost, counted twice,
or left behind.

One campaign runs undisturbed. Of another one with the same settings, workers, producers, fork
servers, reducers and the parent are killed with SIGKILL (the parent continues with --resume), and
one job loses several processes in a row. With --nodes it has lanes on a Ray cluster of this machine
as well, whose lanes and nodes are killed, too; another node joins for each that is lost. In the end
both campaigns must have the same tests, outcomes and findings, each once and with its folder, with
equal models and arrays, and no process or temporary file may be left. Exits with 1 otherwise.

    python -m scripts.torment.chaos --faults 200 -- --backend onnxruntime --tests 400
"""

from __future__ import annotations

import os
import random
import re
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

from nnfuzz.cli.campaigns import refuse_finished
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.sandbox.forkserver import MARK
from nnfuzz.store.store import FILE, Store, StoreError
from scripts import campaigns

OURS, TORMENTED = "NNFUZZ_CHAOS", "tormented"
PARENT, SERVER, PRODUCER, WORKER = "parent", "fork server", "producer", "worker"
REDUCER, AGAIN = "reducer", "the same again and again"
LANE, NODE = "lane on a node", "node"
WEIGHTS = {PARENT: 2, SERVER: 3, PRODUCER: 3, WORKER: 6, REDUCER: 1, AGAIN: 2}
"""How often each process is killed beside the others."""
ON_RAY = {**WEIGHTS, LANE: 6, NODE: 2}
MOST, LINE = 20, 500  # troubles that are shown, and characters of each
GONE_SECONDS = 20.0  # until everything has ended behind a parent that was killed
MOST_AGAIN, AGAIN_SECONDS = 6, 3.0
"""Most kills of processes that run one job, and the wait for the next such process in seconds."""
BINARY = (".onnx", ".npz")
PASSING = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?|0x[0-9a-f]+|[-+]?\d+(\.\d+)?e-?\d+|[-+]?\d+\.\d+"
)
"""Parts of texts in which equal findings differ: times of day, addresses, seconds of a run."""
PATIENCE = 900.0  # seconds without a new test, after which a campaign is taken to be stuck

Start = Callable[[Path, bool, dict[str, str]], "subprocess.Popen[bytes]"]
"""Starts or resumes the campaign in a folder, in an environment."""


@dataclass
class Torment:
    """The faults of a campaign, its sessions, and what went wrong."""

    faults: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    trouble: list[str] = field(default_factory=list)


class Nodes:
    """A Ray cluster of a head, which has the scheduler, and of nodes with a lane each."""

    def __init__(self, count: int) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "include_dashboard": False}
        self.cluster = Cluster(True, head_node_args=head)
        for _ in range(count):
            self.cluster.add_node(num_cpus=1)

    def lose(self, rng: random.Random) -> None:
        """Kills the processes of a node; another one joins."""
        nodes = sorted(self.cluster.worker_nodes, key=lambda node: node.unique_id)
        self.cluster.remove_node(rng.choice(nodes), allow_graceful=False)
        self.cluster.add_node(num_cpus=1)


@dataclass(frozen=True)
class Scene:
    """A running campaign."""

    process: subprocess.Popen[bytes]
    token: str
    rng: random.Random
    nodes: Nodes | None = None

    def of(self, kind: str) -> list[int]:
        """Process ids of one kind."""
        if kind == PARENT:
            return [self.process.pid]
        return [pid for pid, what in family(self.token).items() if what == kind]


# -- processes ------------------------------------------------------------------------------------


def family(token: str) -> dict[int, str]:
    """Process ids of a campaign -> their kinds; helpers of compilers count as workers."""
    marks: dict[int, tuple[int, bytes]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            environment = (entry / "environ").read_bytes().split(b"\0")
            if f"{OURS}={token}".encode() in environment:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                mark = next((v for v in environment if v.startswith(MARK.encode())), b"")
                marks[int(entry.name)] = parent, mark
    return {pid: _role(pid, marks) for pid in marks} | dict.fromkeys(lanes_on_nodes(), LANE)


def lanes_on_nodes() -> list[int]:
    """Process ids of actors, which Ray starts without the environment of the campaign."""
    pids = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if _text(pid, "cmdline").startswith("ray::LaneActor")]


def _role(pid: int, marks: Mapping[int, tuple[int, bytes]]) -> str:
    """The kind of a process, by the marks of fork servers on it and on its parent."""
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
    """Kills a process; returns whether that was possible."""
    if kind == AGAIN:
        return _kill_again(scene)
    if kind == NODE and scene.nodes:
        scene.nodes.lose(scene.rng)
        return True
    chosen = scene.of(kind)
    if not chosen or scene.process.poll() is not None:
        return False
    _kill(scene.rng.choice(chosen))
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
            _kill(chosen)
    return bool(killed)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


# -- campaigns ------------------------------------------------------------------------------------


def torment(
    start: Start,
    folder: Path,
    faults: int,
    seed: int,
    pause: float = 1.0,
    weights: Mapping[str, int] = WEIGHTS,
    nodes: Nodes | None = None,
) -> Torment:
    """Runs a campaign to its end under `faults` faults. pause: mean seconds between two faults.
    weights: relative frequency of each kind of fault.
    """
    rng, done = random.Random(seed), Torment()
    token = f"{os.getpid()}-{folder}"
    with tempfile.TemporaryDirectory(prefix="chaos-") as scratch:
        environment = {**os.environ, OURS: token, "TMPDIR": scratch}
        while not _is_finished(folder):
            with start(folder, (folder / FILE).exists(), environment) as process:
                done.sessions += 1
                _disturb(Scene(process, token, rng, nodes), folder, faults, pause, weights, done)
            if left := _survivors(token):
                done.trouble.append(f"still alive: {left}")
            if process.returncode != -signal.SIGKILL:
                if process.returncode not in (0, 1):
                    done.trouble.append(f"exit code {process.returncode}")
                if files := os.listdir(scratch):
                    done.trouble.append(f"temporary files: {files}")
                break
        return done


def _disturb(
    scene: Scene,
    folder: Path,
    faults: int,
    pause: float,
    weights: Mapping[str, int],
    done: Torment,
) -> None:
    """Causes faults until the parent ends or there were enough; waits for its end."""
    while done.faults.total() < faults and scene.process.poll() is None:
        time.sleep(scene.rng.expovariate(1 / pause))
        kind = scene.rng.choices([*weights], [*weights.values()])[0]
        if scene.process.poll() is None and fault(kind, scene):
            done.faults[kind] += 1
            if kind == PARENT:
                break
    count, since = -1, time.monotonic()
    while scene.process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            scene.process.wait(5.0)
        if (now := _recorded(folder)) != count:
            count, since = now, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            done.trouble.append(f"no test in {PATIENCE:.0f} s behind {dict(done.faults)}")
            scene.process.kill()


def _recorded(folder: Path) -> int:
    """Number of tests of a campaign; -1 before it has begun."""
    with suppress(StoreError, OSError), Store.open(folder, write=False) as store:
        return store.tests.count()
    return -1


def _is_finished(folder: Path) -> bool:
    """Whether a campaign whose parent was killed had come to its limits and its summary before."""
    try:
        with suppress(StoreError, OSError), Store.open(folder, write=False) as store:
            refuse_finished(store, CampaignConfig.from_json(store.config()))
    except ConfigError:
        return True
    return False


def _survivors(token: str) -> dict[int, str]:
    """Processes that remain of a campaign after time to end."""
    end = time.monotonic() + GONE_SECONDS
    while (left := family(token)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def differences(calm: Path, tormented: Path) -> Iterator[str]:
    """Differences between a disturbed campaign and an undisturbed one."""
    yield from campaigns.differences(campaigns.contents(calm), campaigns.contents(tormented))
    with Store.open(calm, write=False) as one, Store.open(tormented, write=False) as two:
        found = [{row.signature: row for row in store.signatures.rows()} for store in (one, two)]
        for signature in sorted(found[0].keys() & found[1].keys()):
            rows = found[0][signature], found[1][signature]
            there = calm / rows[0].folder, tormented / rows[1].folder
            if all(folder.is_dir() for folder in there) and (names := _differing(*there)):
                yield f"files of {signature}, test {rows[0].test} and {rows[1].test}: {names}"
        times = [at for at, _ in two.tests.recorded_after(0.0, -1)]
        sessions = two.sessions.rows()
        first, last = sessions[0], sessions[-1]
        end = last.started + last.seconds
        if times and not first.started <= min(times) <= max(times) <= end + 1:
            yield f"tests from {min(times)} to {max(times)} of {first.started} to {end}"
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


def compared(
    start: Start,
    folder: Path,
    faults: int,
    seed: int,
    pause: float = 1.0,
    weights: Mapping[str, int] = WEIGHTS,
    nodes: Nodes | None = None,
) -> Torment:
    """Runs an undisturbed campaign and a disturbed one; returns the faults with all trouble."""
    calm = torment(start, folder / "calm", 0, seed)
    done = torment(start, folder / TORMENTED, faults, seed, pause, weights, nodes)
    done.trouble += calm.trouble
    done.trouble += differences(folder / "calm", folder / TORMENTED)
    return done


def main(
    arguments: Annotated[list[str], typer.Argument(help="Of nnfuzz fuzz, behind --.")],
    faults: Annotated[int, typer.Option(min=1)] = 100,
    seed: int = 0,
    pause: Annotated[float, typer.Option(help="Mean seconds between two faults.")] = 1.0,
    nodes: Annotated[int, typer.Option(help="Of a Ray cluster, beside its head.")] = 0,
) -> None:
    cluster = Nodes(nodes) if nodes else None

    def start(folder: Path, resume: bool, env: dict[str, str]) -> subprocess.Popen[bytes]:
        more = ["--resume"] if resume else [*arguments, "--seed", str(seed)]
        if cluster and folder.name == TORMENTED and not resume:
            more += ["--set", f"ray={cluster.cluster.address}"]
        command = [*campaigns.FUZZ, "--quiet", "--out", str(folder), *more]
        return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)

    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        weights = ON_RAY if cluster else WEIGHTS
        done = compared(start, Path(folder), faults, seed, pause, weights, cluster)
    if cluster:
        cluster.cluster.shutdown()
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(done.faults.items()))
    seconds = time.monotonic() - begun
    print(f"{done.faults.total()} faults ({told}), {done.sessions} sessions, {seconds:.0f} s")
    trouble = [text[:LINE] for text in done.trouble[:MOST]]
    print("\n".join(trouble) or "nothing lost, nothing counted twice, nothing left behind")
    raise typer.Exit(bool(done.trouble))


if __name__ == "__main__":
    typer.run(main)
