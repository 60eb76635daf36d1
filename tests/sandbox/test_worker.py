"""The other end of a sandbox."""

import mmap
import os
from dataclasses import dataclass

import numpy as np
from hostile import Misbehave

from nnfuzz.sandbox import worker
from nnfuzz.sandbox.job import Job, Service, does
from nnfuzz.sandbox.sandbox import (
    DeathKind,
    Reply,
    Sandbox,
    WorkerFault,
)
from nnfuzz.sandbox.worker import private_bytes
from tests.sandbox.conftest import SERVICE
from tests.sandbox.test_sandbox import fine


def test_an_exception_is_the_services_fault_and_its_process_is_not_used_again(sandbox):
    pid = fine(sandbox)
    event = sandbox.call(Misbehave("raise"))
    assert isinstance(event, WorkerFault)
    assert (event.error_type, event.starting) == ("ValueError", False)
    assert event.message == "the compiler dislikes this model"
    assert "_raise" in event.traceback
    assert sandbox.call(Misbehave("panic")).error_type.endswith("PanicException")
    assert fine(sandbox) != pid


def test_closing_stdout_is_survived(sandbox):
    assert isinstance(sandbox.call(Misbehave("close_stdout")), Reply)
    fine(sandbox)


def test_a_factory_that_raises_or_dies_is_told_apart(server):
    with Sandbox(SERVICE, {"fail": "raise"}, server=server) as sandbox:
        for _ in range(2):
            event = sandbox.call(Misbehave())
            assert isinstance(event, WorkerFault) and event.starting
    with Sandbox(SERVICE, {"fail": "segfault"}, server=server) as sandbox:
        for _ in range(2):
            event = sandbox.call(Misbehave())
            assert (event.kind, event.stage) == (DeathKind.CRASH, "start")
    with Sandbox("no.such.module:make", server=server) as sandbox:
        assert sandbox.call(Misbehave()).error_type == "ModuleNotFoundError"


def test_workers_do_not_share_randomness_or_temporary_files(server):
    service = f"{__name__}:Dice"
    with Sandbox(service, server=server) as one, Sandbox(service, server=server) as two:
        a, b = one.call(Throw()).value, two.call(Throw()).value
    assert all(vars(a)[key] != vars(b)[key] for key in ("random", "numpy", "tempdir", "cwd"))
    assert a.tempdir == a.cwd


@dataclass(frozen=True)
class Thrown:
    random: float
    numpy: float
    tempdir: str
    cwd: str


@dataclass(frozen=True)
class Throw(Job[Thrown]):
    pass


class Dice(Service):
    @does(Throw)
    def throw(self, job, report):
        import random
        import tempfile

        return Thrown(random.random(), np.random.random(), tempfile.gettempdir(), os.getcwd())


def test_memory_that_is_shared_counts_once_it_is_much(monkeypatch):
    """It is no file's, and the system has no other place for it."""
    before = private_bytes(os.getpid())
    size = 16 << 20
    with mmap.mmap(-1, size) as shared:
        shared[::4096] = bytes(len(range(0, size, 4096)))
        assert private_bytes(os.getpid()) - before < size // 2
        monkeypatch.setattr(worker, "SHARED_BYTES", 1 << 20)
        assert private_bytes(os.getpid()) - before >= size
