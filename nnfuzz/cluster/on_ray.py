"""A campaign on the nodes of a Ray cluster.

One actor per node runs nnfuzz.cluster.node on all of its cores. One more actor, the coordinator,
runs beside this process and lends ranges of indexes (nnfuzz.parts.leases). Ray restarts actors
that die, and this process starts one on every node that joins. Only reports go through Ray: nodes
publish rows and findings to a folder or address that all nodes can read, and the campaign is merged
from there at the end (nnfuzz.parts.merging).
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import sqlite3
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from nnfuzz.base.reading import JsonObject
from nnfuzz.campaign.opening import AHEAD
from nnfuzz.cluster.node import Link, NodeStatus, run_node
from nnfuzz.parts.leases import Leases
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.records.lending import Lent, NodeReport
from nnfuzz.records.observer import CampaignSnapshot, Observer

P = ParamSpec("P")
T = TypeVar("T")

CALL_SECONDS = 10.0
"""Seconds until a call counts as lost; Ray may be restarting the actor."""
LOOK_SECONDS = 0.5
FAILURES, FAILURES_SECONDS = 3, 600.0
"""A node's campaign that fails more than FAILURES times in FAILURES_SECONDS is given up."""
PROCESS_BYTES = 1 << 30
"""Memory for the processes of one core: a node with little memory uses fewer cores."""
LEASES = "leases.sqlite"


@dataclass(frozen=True)
class ClusterState:
    """Progress of a campaign.

    kept: number of published tests. frontier: see Leases. over: whether nothing is left to do.
    nodes: the latest status of each node. titles: titles of findings by signature. pid: process id
    of the coordinator. spent: seconds of all sessions.
    """

    kept: int
    frontier: int
    over: bool
    nodes: dict[str, NodeStatus]
    titles: dict[str, str]
    notes: tuple[str, ...]
    pid: int
    spent: float


@dataclass(frozen=True)
class Machine:
    """A machine of the cluster. cores: number of cores that a campaign may use."""

    name: str
    host: str
    cores: int
    gpus: float


def _retryable(method: Callable[P, T]) -> Callable[P, T]:
    """Turns errors of the coordinator's file into OSError, after which callers try again."""

    @wraps(method)
    def call(*args: P.args, **named: P.kwargs) -> T:
        try:
            return method(*args, **named)
        except sqlite3.Error as error:
            raise OSError(f"the coordinator's file: {error}") from error

    return call


class CoordinatorActor:
    """Lends ranges. Its state is in a file, so it can be killed at any moment.

    While the file cannot be written, every method raises OSError.
    """

    def __init__(self, path: str, limit: int | None, longest: int) -> None:
        self._open = partial(Leases, path, limit, longest=longest)
        self._opened: Leases | None = (
            None  # in __init__ an error would keep Ray from restarting the actor
        )
        self._statuses: dict[str, NodeStatus] = {}
        self._notes: list[str] = []

    @property
    def _leases(self) -> Leases:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    @_retryable
    def sync(self, report: NodeReport, status: NodeStatus) -> Lent:
        lent = self._leases.sync(report, time.monotonic())
        self._statuses[report.node] = status
        self._notes += [f"{status.host}: {note}" for note in status.notes]
        return lent

    @_retryable
    def lose(self, place: str) -> None:
        """Frees the ranges of the nodes at a place that is gone."""
        for name in [name for name, node in self._statuses.items() if node.place == place]:
            self._leases.lose(name)

    @_retryable
    def state(self, closes: bool, seconds: float) -> ClusterState:
        """The progress of the campaign.

        closes: whether the time is over, so that nothing more is lent. seconds: of all sessions.
        """
        leases = self._leases
        leases.spend(seconds)
        leases.closed |= closes
        nodes = {name: self._statuses[name] for name in leases.nodes() if name in self._statuses}
        notes, self._notes = tuple(self._notes), []
        titles = leases.findings()
        where = leases.kept, leases.frontier, leases.over
        return ClusterState(*where, nodes, titles, notes, os.getpid(), leases.spent)


class NodeActor:
    """Runs a node; a restarted actor continues in the folder of the one before."""

    def run(
        self, settings: dict[str, object], campaign: str, coordinator: Any, place: Machine
    ) -> int:
        """Returns the number of tests. campaign: its name on the disks of nodes."""

        def call(report: NodeReport, status: NodeStatus) -> Lent:
            try:
                return ray.get(coordinator.sync.remote(report, status), timeout=CALL_SECONDS)
            except (RayActorError, GetTimeoutError) as error:
                raise ConnectionError(type(error).__name__) from error

        link = Link(call, place.host, place.name)
        folder = Path(tempfile.gettempdir(), f"nnfuzz-{campaign}", place.name[:12])
        return run_node(settings, folder, link, place.cores)

    def pid(self) -> int:
        return os.getpid()


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """Connects this process to a Ray cluster, unless it is connected already.

    address: "" for the cluster that this machine belongs to, or else a new one of this machine
    alone. Raises: ConfigError.
    """
    if "://" in address:
        raise ConfigError(
            f"{address}: this command has to run in the cluster: ray job submit --address "
            "http://HEAD:8265 -- nnfuzz fuzz --ray ..."
        )
    if ray.is_initialized():
        yield
        return
    try:
        ray.init(address=address or None, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = f"at {address}" if address else "here"
        raise ConfigError(f"there is no Ray cluster {where}: {error}"[:300]) from error
    try:
        yield
    finally:
        ray.shutdown()


def machines() -> int:
    """Number of machines in the cluster."""
    return len({node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]})


def places(on_gpu: bool) -> list[Machine]:
    """The live nodes that can take part. on_gpu: whether a compiler needs a GPU."""
    found = []
    for node in ray.nodes():
        resources = node["Resources"]
        memory = int(resources.get("memory", 0) // PROCESS_BYTES)
        cores, gpus = min(int(resources.get("CPU", 0)), memory), resources.get("GPU", 0)
        if node["Alive"] and cores and (gpus or not on_gpu):
            host = str(node["NodeManagerHostname"])
            found.append(Machine(node["NodeID"], host, cores, gpus))
    return found


class Cluster:
    """The coordinator and the nodes of a campaign.

    config: with its `share`. settings: config as JSON; `workers` 0 for as many processes on each
    node as suit its cores. work: a folder of this machine for durable state. on_gpu: see places.
    """

    def __init__(
        self, config: CampaignConfig, settings: dict[str, object], work: Path, on_gpu: bool
    ) -> None:
        self._config = config
        self._settings = settings
        self._on_gpu = on_gpu
        path = str((work / LEASES).resolve())
        self._campaign = hashlib.sha256(path.encode()).hexdigest()[:12]
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._restarts = {"max_restarts": -1, "max_task_retries": -1}
        actor = ray.remote(CoordinatorActor).options(
            num_cpus=0, scheduling_strategy=here, **self._restarts
        )
        self.coordinator = actor.remote(path, config.tests_limit, config.epoch)
        self.running: dict[Any, Machine] = {}
        """The future result of each running node."""
        self.actors: JsonObject = {}
        """Actors by the name of their node."""
        self._failed: defaultdict[str, list[float]] = defaultdict(list)

    def staff(self) -> None:
        """Starts an actor on every node that has none."""
        for place in places(self._on_gpu):
            if place.name not in self.actors:
                there = NodeAffinitySchedulingStrategy(place.name, soft=False)
                actor = ray.remote(NodeActor).options(
                    num_cpus=place.cores,
                    num_gpus=place.gpus if self._on_gpu else 0,
                    max_concurrency=2,
                    scheduling_strategy=there,
                    **self._restarts,
                )
                self.actors[place.name] = actor.remote()
                self._run(place)

    def _run(self, place: Machine) -> None:
        args = (self._settings, self._campaign, self.coordinator, place)
        self.running[self.actors[place.name].run.remote(*args)] = place

    def retry(self, place: Machine) -> bool:
        """Runs a node that failed once more, unless it has failed more than FAILURES times in a
        row; returns whether it runs.
        """
        failed = self._failed[place.name]
        failed.append(time.monotonic())
        if len(failed) > FAILURES and failed[-1] - failed[-1 - FAILURES] < FAILURES_SECONDS:
            return False
        self._run(place)
        return True

    def ended(self) -> Iterator[tuple[Machine, Exception | None]]:
        """The nodes that have ended since the last call, each with its error or None."""
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        for result, place in [*self.running.items()]:
            if place.name not in alive:
                del self.running[result]
                self.coordinator.lose.remote(place.name)
                yield place, RayActorError(error_msg="its node is gone")
        if not self.running:
            time.sleep(LOOK_SECONDS)
            return
        done, _ = ray.wait([*self.running], timeout=LOOK_SECONDS)
        for result in done:
            place = self.running.pop(result)
            try:
                ray.get(result)
                yield place, None
            except RayTaskError as error:
                cause = error.cause if isinstance(error.cause, Exception) else error
                if cause is not error:
                    cause.__cause__ = error  # which holds the place where it was raised
                yield place, cause
            except RayError as error:
                yield place, error

    def state(self, closes: bool = False, seconds: float = 0.0) -> ClusterState | None:
        """The progress; None while the coordinator does not answer. See CoordinatorActor.state."""
        with contextlib.suppress(RayActorError, GetTimeoutError, OSError):
            state: ClusterState = ray.get(
                self.coordinator.state.remote(closes, seconds), timeout=CALL_SECONDS
            )
            return state
        return None

    def close(self) -> None:
        """Kills all actors."""
        for actor in (*self.actors.values(), self.coordinator):
            ray.kill(actor)


def run(
    config: CampaignConfig,
    settings: dict[str, object],
    work: Path,
    on_gpu: bool,
    observer: Observer,
    stopped: Callable[[], bool] = lambda: False,
    watch: Callable[[Cluster, ClusterState], None] = lambda cluster, state: None,
) -> None:
    """Runs a campaign on the connected Ray cluster until a limit is reached or the user stops it.

    Its segments are then in config.share. watch: called about twice a second.

    Raises: ConfigError if no node can take part; the error of the last node that failed.
    """
    first = places(on_gpu)
    if not first:
        need = "a GPU, " if on_gpu else ""
        raise ConfigError(f"no node of the cluster has {need}a core and 1 GB of memory to lend")
    hands = AHEAD * sum(place.cores for place in first)
    if hands > config.epoch:
        observer.note(
            f"nodes will often wait for each other: they can take {hands} tests, and an epoch has "
            f"{config.epoch}; a new campaign with --set epoch={4 * hands} keeps them busy"
        )
    cluster = Cluster(config, settings, work, on_gpu)
    try:
        _Session(cluster, config, observer, stopped, watch).run()
    finally:
        cluster.close()


class _Session:
    """One session of a campaign on a cluster; the parameters are those of `run`."""

    def __init__(
        self,
        cluster: Cluster,
        config: CampaignConfig,
        observer: Observer,
        stopped: Callable[[], bool],
        watch: Callable[[Cluster, ClusterState], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._observer = observer
        self._stopped = stopped
        self._watch = watch
        self._announced: set[str] = set()
        """Signatures of findings that the observer knows."""
        self._began = time.monotonic()

    def run(self) -> None:
        """Raises: the error of the last node that failed."""
        while (state := self._cluster.state()) is None:
            if self._stopped():
                return
            time.sleep(LOOK_SECONDS)
        earlier, limit = state.spent, self._config.time_limit or math.inf
        closes = earlier >= limit
        over = state.over or closes
        while True:
            if not over:
                self._cluster.staff()
            self._handle_ended(over)
            seconds = earlier + time.monotonic() - self._began
            closes |= self._stopped() or seconds >= limit
            if (state := self._cluster.state(closes, seconds)) is None:
                continue
            over = state.over
            self._show(state, seconds)
            if over and not self._cluster.running:
                return

    def _handle_ended(self, over: bool) -> None:
        """Runs failed nodes again. Raises: the error of the last one, if it is not to run again."""
        for place, error in self._cluster.ended():
            if error is not None:
                gone = isinstance(error, RayActorError)
                again = not gone and not over and self._cluster.retry(place)
                end = "goes on" if again else "is lost"
                self._observer.note(f"{place.host} {end}: {error}"[:300])
                if not gone and not self._cluster.running:
                    raise error

    def _show(self, state: ClusterState, seconds: float) -> None:
        for signature in [s for s in state.titles if s not in self._announced]:
            self._announced.add(signature)
            self._observer.note(f"found {state.titles[signature]} [{signature}]")
        for note in state.notes:
            self._observer.note(note)
        running = len(self._cluster.running)
        self._observer.update(snapshot(self._config, state, seconds, running))
        self._watch(self._cluster, state)


def snapshot(
    config: CampaignConfig, state: ClusterState, seconds: float, running: int
) -> CampaignSnapshot:
    """The sum over all nodes that report. Its tests include published ones of lost nodes."""
    nodes, outcomes = [node.campaign for node in state.nodes.values()], Counter[str]()
    for node in nodes:
        outcomes.update(node.outcomes)
    rate = sum(node.rate for node in nodes)
    limits = [config.time_limit - seconds] if config.time_limit else []
    if config.tests_limit and rate:
        limits.append((config.tests_limit - state.kept) / rate)
    return CampaignSnapshot(
        phase="reducing" if nodes and all(n.phase == "reducing" for n in nodes) else "fuzzing",
        seconds=seconds,
        left=max(0.0, min(limits)) if limits else None,
        indexes=state.frontier,
        tests=max(state.kept, sum(node.tests for node in nodes)),
        rate=rate,
        outcomes=dict(outcomes),
        findings=len(state.titles),
        occurrences=sum(node.occurrences for node in nodes),
        faults=sum(node.faults for node in nodes),
        refused=max((node.refused for node in nodes), default=0),
        sut_share=sum(node.sut_share for node in nodes) / max(1, len(nodes)),
        tests_limit=config.tests_limit,
        avoided=max((node.avoided for node in nodes), default=0),
        nodes=tuple(map(str, state.nodes.values())) or (f"{running} starting",),
    )
