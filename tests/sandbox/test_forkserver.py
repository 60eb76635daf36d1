"""Fork servers begin workers, and nothing is left of them."""

import os
import time

from hostile import Misbehave
from warmed import AskTotal

from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.sandbox import (
    Death,
    Limits,
    Sandbox,
)
from tests.sandbox.conftest import SERVICE
from tests.sandbox.test_sandbox import fine, gone, processes_in, soon


def test_closing_while_the_libraries_are_imported_is_quick():
    sandbox = Sandbox(SERVICE, preload=["tests.sandbox.slow_import"])
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
