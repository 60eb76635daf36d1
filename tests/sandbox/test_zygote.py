"""Processes, workers and fork servers start and end."""

import mmap
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hostile import Misbehave
from warmed import AskTotal

from nnfuzz.sandbox import worker
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.job import Job, Service, does
from nnfuzz.sandbox.sandbox import (
    Death,
    DeathKind,
    Limits,
    Reply,
    Sandbox,
    WorkerFault,
)
from nnfuzz.sandbox.worker import private_bytes
from nnfuzz.sandbox.zygote import remove_tree
from tests.sandbox.conftest import SERVICE
from tests.sandbox.test_sandbox import fine, gone, processes_in, soon

SERVICES = Path(__file__).parents[1] / "backend"
SCRIPT = """
import signal, sys
from hostile import Misbehave
from nnfuzz.sandbox.sandbox import Limits, Sandbox, wait
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
sandboxes = [Sandbox("hostile:make", limits=Limits(seconds=60)) for _ in range(2)]
idle, busy = sandboxes
for sandbox in sandboxes:
    sandbox.call(Misbehave("daemon"))
busy.submit(Misbehave(sys.argv[1]))
try:
    print(idle.server.scratch, busy.server.scratch, flush=True)
    wait(sandboxes)
except KeyboardInterrupt:
    assert wait(sandboxes, 0.3) == []
    for sandbox in sandboxes:
        sandbox.close()
    print("closed", flush=True)
"""


def family() -> set[int]:
    """Processes that carry the mark of the campaign in their environment."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"NNFUZZ_TEST_MARK=" + MARK in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


MARK = str(os.getpid()).encode()


@pytest.fixture
def campaign(request):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, request.param],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SERVICES), "NNFUZZ_TEST_MARK": MARK.decode()},
        start_new_session=True,
    )
    scratches = [Path(name) for name in process.stdout.readline().split()]
    time.sleep(0.2)
    yield process, scratches
    process.stdout.close()
    process.wait()


def wait_until_gone(seconds: float) -> set[int]:
    end = time.monotonic() + seconds
    while (left := family()) and time.monotonic() < end:
        time.sleep(0.02)
    return left


@pytest.mark.parametrize(
    "campaign", ["hang_holding_the_gil", "spin", "print_forever"], indirect=True
)
def test_kill_9_of_the_campaign_kills_all_descendants(campaign):
    process, scratches = campaign
    before = family()
    assert len(before) >= 7  # the campaign, two fork servers, two workers, two daemons
    process.kill()
    process.wait()
    assert wait_until_gone(5.0) == set()
    assert not any(scratch.exists() for scratch in scratches)


@pytest.mark.parametrize("campaign", ["hang"], indirect=True)
def test_ctrl_c_reaches_the_campaign_alone(campaign):
    process, scratches = campaign
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout.readline() == "closed\n"
    assert process.wait() == 0
    assert wait_until_gone(5.0) == set()
    assert not any(scratch.exists() for scratch in scratches)


def test_folders_that_are_deep_or_locked_are_removed(tmp_path):
    """Python's own removal ends in a recursion."""
    deep, locked = tmp_path / "deep", tmp_path / "locked"
    (locked / "inner").mkdir(parents=True)
    locked.chmod(0)
    deep.mkdir()
    place = os.open(deep, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    for folder in (deep, locked):
        remove_tree(folder)
        assert not folder.exists()


# Fork servers begin workers, and nothing is left of them.


def test_closing_while_the_libraries_are_imported_is_quick():
    sandbox = Sandbox(SERVICE, own_server=lambda: ForkServer(["tests.sandbox.slow_import"]))
    sandbox.start()
    start = time.monotonic()
    sandbox.close()
    assert time.monotonic() - start < 10.0


def test_workers_begin_with_what_the_warm_up_left():
    with ForkServer(warm=("warmed:service", {"by": 3})) as server:
        server.pump()
        sandboxes = [Sandbox("warmed:service", {"by": 0}, server=server) for _ in range(2)]
        try:
            assert [sandbox.call(AskTotal()).value for sandbox in sandboxes] == [3, 3]
        finally:
            for sandbox in sandboxes:
                sandbox.close()


def test_a_failing_warm_up_is_left_to_the_worker():
    with ForkServer(warm=("warmed:service", {"by": "three"})) as server:
        sandbox = Sandbox("warmed:service", {"by": 1}, server=server)
        assert sandbox.call(AskTotal()).value == 1
        assert "warming up warmed:service failed: TypeError" in server.log()
        sandbox.close()


def test_close_leaves_no_process_and_no_file():
    sandbox = Sandbox(SERVICE)
    pid = fine(sandbox)
    sandbox.submit(Misbehave("hang"))
    scratch = sandbox.server.scratch
    assert (scratch / "worker-0-1").is_dir()
    fds = len(os.listdir("/proc/self/fd"))
    sandbox.close()
    sandbox.close()
    assert gone(pid)
    assert not scratch.exists()
    assert len(os.listdir("/proc/self/fd")) < fds


def test_daemons_end_with_the_fork_server():
    sandbox = Sandbox(SERVICE)
    pid = sandbox.call(Misbehave("daemon")).value.pid
    started = [p for p in processes_in(sandbox.server.scratch) if p != pid]
    assert started
    sandbox.close()
    assert soon(lambda: all(gone(p) for p in started))


def test_a_dead_fork_server_is_started_again():
    with Sandbox(SERVICE, limits=Limits(seconds=0.5)) as sandbox:
        pid = fine(sandbox)
        os.kill(sandbox.server.pid, 9)
        # A timeout if the job had not begun and so was given to the next worker.
        assert isinstance(sandbox.call(Misbehave("hang")), Death)
        fine(sandbox)
        assert soon(lambda: gone(pid))


@pytest.mark.parametrize("importing", [False, True])
def test_a_fork_server_that_is_stopped_is_replaced(importing):
    limits = Limits(jobs_per_process=1, start_seconds=0.5)
    with ForkServer(("numpy",)) as server, Sandbox(SERVICE, server=server) as sandbox:
        if not importing:
            fine(sandbox)
        os.kill(server.pid, signal.SIGSTOP)
        sandbox.limits = limits
        death = sandbox.call(Misbehave("nothing"))
        assert (death.kind, death.stage) == (DeathKind.TIMEOUT, "start")
        sandbox.limits = Limits()
        fine(sandbox)


# The other end of a sandbox.


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
