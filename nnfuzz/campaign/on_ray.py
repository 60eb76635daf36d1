"""Lanes on the nodes of a Ray cluster, which make and run tests beside those of the scheduler.

An actor is one lane on a node, with fork servers of its own. It exchanges the frames of
nnfuzz.sandbox.wire with the scheduler, which alone reads them, and which alone has a database: a
node that is lost loses nothing but the tests that it is at, which another lane makes again.
"""

from __future__ import annotations

import json
import logging
import math
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner, CompilerServers
from nnfuzz.base.files import cache_folder
from nnfuzz.base.programs import run_program
from nnfuzz.base.reading import Json, JsonObject
from nnfuzz.base.text import one_line
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.lane_jobs import RUN
from nnfuzz.campaign.lanes import SERVICE, Lanes
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.records.observer import counted
from nnfuzz.sandbox import wire
from nnfuzz.sandbox.events import Death, DeathKind, Event, Progress, Reply, Trouble
from nnfuzz.sandbox.forkserver import ForkClient
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.process import OwnTime
from nnfuzz.sandbox.record import pack, unpack
from nnfuzz.sandbox.sandbox import Sandbox, wait

EXCHANGE_SECONDS = 1.0
"""The longest that an actor waits for its lane before it answers that nothing has happened."""
SILENT_SECONDS = 60.0
"""An actor that does not answer for so long is given up: its node may be out of reach."""
CONNECT_SECONDS = 20.0
_HEALTH_CHECK = (sys.executable, "-m", "ray.scripts.scripts", "health-check")
LOOK_SECONDS = 5.0  # between two looks at which nodes there are


@dataclass(frozen=True)
class _Frame(Job[Any]):
    """A job of the scheduler, passed on unread; so are its answers."""

    frame: bytes

    def to_frame(self) -> tuple[JsonObject, wire.NamedBlobs]:
        return wire.decode(self.frame)

    def read_answer(self, header: Mapping[str, Json], blobs: wire.Blobs) -> Any:
        return wire.encode(dict(header), dict(blobs))

    def read_part(self, number: int, header: Mapping[str, Json], blobs: wire.Blobs) -> object:
        return self.read_answer(header, blobs)


@dataclass(frozen=True)
class _Message:
    """An event of a lane on a node. part: whether more follow. trouble: in place of a frame."""

    part: bool
    frame: bytes = b""
    captured: str = ""
    trouble: Trouble | None = None


class LaneActor:
    """The actor: one lane on a node."""

    def __init__(self, config: str) -> None:
        """config: the written CampaignConfig, as JSON."""
        settings = CampaignConfig.from_json(json.loads(config))
        registry, compilers = BackendRegistry.discover(settings.plugins), CompilerServers()
        servers = [compilers.of(registry.get(spec.name), spec) for spec in settings.backends]
        self._versions = {}
        for spec, server in zip(settings.backends, servers, strict=True):
            runner = BackendRunner(spec, registry, server)
            self._versions[spec.label] = runner.versions()
            runner.close()
        self._lanes = Lanes(replace(settings, workers=1), servers, cache_folder())

    def versions(self) -> dict[str, dict[str, str]]:
        """The versions of the compilers of this node, by backend."""
        return self._versions

    def exchange(self, entered: str, frame: bytes | None) -> list[bytes]:
        """Begins a job, if there is one, and returns what has happened in the lane since.

        entered: the written Enter of the present epoch, as JSON, for a process that is started.
        """
        sandbox = self._lanes.workers[0].sandbox
        if frame is not None:
            sandbox.rearm({**self._lanes.arguments, "entered": json.loads(entered)})
            sandbox.submit(_Frame(frame))
        events = [event for _, event in wait([sandbox], EXCHANGE_SECONDS)]
        return [wire.encode(*pack(_Message, _message(event))) for event in events]


def _message(event: Event) -> _Message:
    if isinstance(event, Reply | Progress):
        return _Message(isinstance(event, Progress), event.value, event.captured)
    return _Message(False, trouble=event)


class RemoteLane(Sandbox):
    """The scheduler's end of an actor: a sandbox whose worker is on another machine.

    lost: whether the actor is gone, with its node or alone.
    """

    def __init__(self, actor: Any, server: ForkClient, node: str) -> None:
        """server: of the scheduler's own lanes, whose events `wait` may look at meanwhile."""
        self.lost = False
        self.actor, self.node, self._entered = actor, node, "null"
        self._answer: Any = None
        self._parts = 0
        super().__init__(SERVICE, server=server)

    def rearm(self, arguments: JsonObject) -> None:
        self._entered = json.dumps(arguments.get("entered"))

    @property
    def busy(self) -> bool:
        return self._answer is not None

    def submit(
        self,
        job: Job[Any],
        seconds: float = math.inf,
        take: Callable[[Any], Any] = lambda part: part,
    ) -> None:
        self._work, self._take, self._parts = job, take, 0
        self._ask(wire.encode(*job.to_frame()))

    def _ask(self, frame: bytes | None) -> None:
        self._answer, self._clock = self.actor.exchange.remote(self._entered, frame), OwnTime()

    def _collect(self) -> list[Event]:
        if self._answer is None:
            return []
        if not ray.wait([self._answer], timeout=0)[0]:
            if not self._clock.exceeds(SILENT_SECONDS, None):
                return []
            return [self._end(TimeoutError(f"no answer for {SILENT_SECONDS:.0f} s"))]
        try:
            events = [self._read(frame) for frame in ray.get(self._answer)]
        except Exception as error:  # of Ray, or of a node that has sent something else
            return [self._end(error)]
        ended = any(not isinstance(event, Progress) for event in events)
        if ended:
            self._answer = None
        else:
            self._ask(None)
        return events

    def _read(self, frame: bytes) -> Event:
        message: _Message = unpack(_Message, *wire.decode(frame))
        if message.trouble:
            return message.trouble
        content = wire.decode(message.frame)
        if message.part:
            self._parts += 1
            return Progress(
                self._take(self._work.read_part(self._parts - 1, *content)), message.captured
            )
        if self._parts < self._work.parts:
            raise wire.WireError(f"an answer after {self._parts} of {self._work.parts} parts")
        return Reply(self._work.read_answer(*content), message.captured)

    def _end(self, error: Exception) -> Death:
        """The end of the job with the actor: as if somebody outside had killed the lane."""
        self.close()
        words = f"{_lane_on(self.node)}: {one_line(str(error))}"
        return Death(DeathKind.CRASH, RUN, "SIGKILL", None, words, 0.0)

    def close(self) -> None:
        self.lost, self._answer = True, None
        ray.kill(self.actor)


def _lane_on(node: str) -> str:
    return f"lane on node {node[:8]}"


class Cluster:
    """The lanes of a campaign on a cluster: one for each core of each node but the scheduler's.

    Nodes may join and leave at any time.
    """

    def __init__(
        self,
        config: CampaignConfig,
        lanes: Lanes,
        versions: Mapping[str, Mapping[str, str]],
        note: Callable[[str], None],
    ) -> None:
        """versions: of the scheduler's compilers by backend; a node with others takes no part."""
        self._config, self._lanes, self._note = config, lanes, note
        self._versions = {label: dict(own) for label, own in versions.items()}
        self._actors: dict[str, list[Any]] = {}
        """By node. An actor ends with the last reference to it."""
        self._joining: dict[Any, tuple[str, Any]] = {}
        self._looked = 0.0
        self._own = ray.get_runtime_context().get_node_id()

    def look(self) -> None:
        """Has lost lanes leave, and new ones join on nodes that have cores left for them."""
        for lane in [*self._lanes.workers]:
            remote = lane.sandbox
            if isinstance(remote, RemoteLane) and remote.lost and lane.order is None:
                self._lanes.workers.remove(lane)
                self._actors[remote.node].remove(remote.actor)
        if self._joining:
            for ready in ray.wait([*self._joining], num_returns=1, timeout=0)[0]:
                self._join(*self._joining.pop(ready), ready)
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        for node in ray.nodes():
            name, cores = node["NodeID"], int(node["Resources"].get("CPU", 0))
            if node["Alive"] and name != self._own:
                own = self._actors.setdefault(name, [])
                own += [self._start(name) for _ in range(cores - len(own))]

    def _start(self, node: str) -> Any:
        place = NodeAffinitySchedulingStrategy(node, soft=False)
        options = {"num_cpus": 1, "scheduling_strategy": place, "max_restarts": 0}
        actor: Any = (
            ray.remote(LaneActor).options(**options).remote(json.dumps(as_json(self._config)))
        )
        self._joining[actor.versions.remote()] = (node, actor)
        return actor

    def _join(self, node: str, actor: Any, versions: Any) -> None:
        name = _lane_on(node)
        try:
            own = ray.get(versions)
        except RayError as error:
            self._note(f"{name} does not start: {one_line(str(error).strip().splitlines()[-1])}")
            return
        if own != self._versions:
            self._note(f"{name} takes no part: it has {own}, and the campaign {self._versions}")
            ray.kill(actor)
            return
        self._lanes.join(RemoteLane(actor, self._lanes.server, node))
        remote = sum(isinstance(lane.sandbox, RemoteLane) for lane in self._lanes.workers)
        self._note(f"{counted(remote, 'lane')} on other nodes")


@contextmanager
def connected(address: str) -> Iterator[None]:
    """While entered, this process is a driver of a Ray cluster; its actors end with it.

    Raises: ConfigError if there is no cluster at the address.
    """
    host, named, port = address.rpartition(":")
    given = ["--address", address] if named else []
    try:
        if named:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        # Where something else listens, Ray itself would wait for minutes and heed no signal.
        if run_program([*_HEALTH_CHECK, *given], timeout=CONNECT_SECONDS).returncode:
            raise ConnectionError("Ray's health check fails")
        handler = signal.getsignal(signal.SIGTERM)
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        with chdir("/"):  # actors import from the folder that their driver begins in
            ray.init(address=address, namespace="nnfuzz", **quiet)
        with suppress(ValueError):  # in a thread, where Ray does not replace the handler
            signal.signal(signal.SIGTERM, handler)
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"no Ray cluster at {address}: no answer") from error
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        raise ConfigError(f"no Ray cluster at {address}: {one_line(str(error))}") from error
    try:
        yield
    finally:
        ray.shutdown()
