"""Attacks by mutated messages of real workers: each job must end once, and the next be right."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from nnfuzz.backend.runner import read_outcome
from nnfuzz.backend.target import Target
from nnfuzz.base.writing import as_json
from nnfuzz.sandbox import channel, wire
from nnfuzz.sandbox.events import Limits, Progress, Reply
from nnfuzz.sandbox.sandbox import Sandbox, wait
from scripts.torment.attack import Attack, Surface
from scripts.torment.attack.frames import GOOD, X
from scripts.torment.attack.mutations import mutated, scrambled

KINDS = (channel.PARTIAL, channel.REPLY, channel.FAULT, channel.READY, b"?")


class Sender:
    """A service that sends the given bytes before its own answer."""

    def handle(self, header, blobs, report):
        report("execute O1")
        if blobs:
            connection().sendall(blobs["bytes"])
        return {}, {}


def service() -> Sender:
    return Sender()


def connection():
    """The socket of this worker, taken from the stack of its server loop."""
    frame = sys._getframe()
    while frame.f_code.co_name != "_serve":
        frame = frame.f_back
    return frame.f_locals["sock"]


def message(rng: random.Random, job: int) -> bytes:
    header = mutated(as_json(GOOD), rng) if rng.random() < 0.5 else as_json(GOOD)
    try:
        payload = wire.encode(header, {"output/y": X, "output/z": np.arange(3, dtype=np.int8)})
    except (wire.WireError, RecursionError):
        payload = b""
    number = job if rng.random() < 0.8 else rng.choice((0, job - 1, job + 1, 2**63))
    pieces = channel.pack(rng.choice(KINDS), payload, number)
    data = b"".join(map(bytes, pieces))
    return scrambled(data, rng) if rng.random() < 0.5 else data


@contextmanager
def workers() -> Iterator[Attack]:
    part = partial(read_outcome, told=lambda release: Target("toy", release, pipeline="O1"))
    limits = Limits(seconds=5.0, memory_bytes=1 << 30, jobs_per_process=20)
    preload = ["numpy", "scripts.torment.attack.workers"]
    with Sandbox(
        "scripts.torment.attack.workers:service", limits=limits, preload=preload
    ) as sandbox:

        def end(data: bytes) -> list[object]:
            blobs = {"bytes": data} if data else {}
            sandbox.submit({}, blobs, part=part)
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


SURFACES = (Surface("workers", 3, workers, "messages of real workers"),)
