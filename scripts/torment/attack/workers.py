"""Attacks by mutated messages of real workers: each job must end once, and the next be right."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.runner import checked
from nnfuzz.backend.target import Target
from nnfuzz.base.text import visible
from nnfuzz.sandbox import channel, wire
from nnfuzz.sandbox.events import Limits, Progress, Reply
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.job import Job, Report, Service, does
from nnfuzz.sandbox.record import pack
from nnfuzz.sandbox.sandbox import Sandbox, wait
from scripts.torment.attack import Attack, Surface
from scripts.torment.attack.files import mutated, scrambled

KINDS = (channel.PARTIAL, channel.REPLY, channel.FAULT, channel.READY, b"?")
GOOD = Outcome(
    OutcomeKind.OK,
    Stage.EXECUTE,
    Target("toy", "1.0", pipeline="O1"),
    seconds={"execute": 0.1},
    outputs={"y": np.arange(4, dtype=np.float32), "z": np.arange(3, dtype=np.int8)},
)


@dataclass(frozen=True)
class Send(Job[None]):
    """Sends these bytes, and then the answer to this job."""

    data: bytes

    part = Outcome

    @property
    def parts(self) -> int:
        return bool(self.data)


class Sender(Service):
    @does(Send)
    def send(self, job: Send, report: Report) -> None:
        report("execute O1")
        if job.data:
            connection().sendall(job.data)


def service() -> Sender:
    return Sender()


def connection():
    """The socket of this worker, taken from the stack of its server loop."""
    frame = sys._getframe()
    while frame.f_code.co_name != "_serve":
        frame = frame.f_back
    return frame.f_locals["sock"]


def message(rng: random.Random, job: int) -> bytes:
    header, blobs = pack(Outcome, GOOD)
    try:
        payload = wire.encode(mutated(header, rng) if rng.random() < 0.5 else header, blobs)
    except (wire.WireError, RecursionError):
        payload = b""
    number = job if rng.random() < 0.8 else rng.choice((0, job - 1, job + 1, 2**63))
    pieces = channel.pieces_of(rng.choice(KINDS), payload, number)
    data = b"".join(map(bytes, pieces))
    return scrambled(data, rng) if rng.random() < 0.5 else data


def checked_outcome(outcome: Outcome) -> Outcome:
    """As a runner does with what it gets from its worker."""
    return checked(outcome, Target("toy", visible(outcome.target.release), pipeline="O1"))


@contextmanager
def workers() -> Iterator[Attack]:
    limits = Limits(seconds=5.0, memory_bytes=1 << 30, jobs_per_process=20)
    own = "scripts.torment.attack.workers"
    with (
        ForkServer(["numpy", own]) as server,
        Sandbox(f"{own}:service", None, limits, server) as sandbox,
    ):

        def end(data: bytes) -> list[object]:
            sandbox.submit(Send(data), take=checked_outcome)
            seen: list[object] = []
            while sandbox.busy:
                seen += [event for _, event in wait([sandbox])]
            return seen

        def attack(rng: random.Random) -> str:
            job = sandbox._process.jobs + 1 if sandbox._process else 1
            ends = [e for e in end(message(rng, job)) if not isinstance(e, Progress)]
            if len(ends) != 1:
                return f"{len(ends)} ends of one job"
            after = end(b"")
            return "" if isinstance(after[-1], Reply) else f"the next job ended in {after[-1]}"

        yield attack


SURFACES: dict[str, Surface] = {"workers": workers}
