"""What a worker starts or removes harms no other job, and is gone with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.sandbox.events import Limits, Reply
from nnfuzz.sandbox.forkserver import MARK, PREFIX, ForkServer, sweep
from nnfuzz.sandbox.sandbox import MOST_KILLS, Sandbox, wait
from tests.attacks.attacker import Attack

SERVICE = "attacker:service"


@pytest.fixture
def sandbox(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    limits = Limits(seconds=10.0, jobs_per_process=50)
    with Sandbox(SERVICE, limits=limits, own_server=lambda: ForkServer(["numpy"])) as sandbox:
        yield sandbox


def pid_after(sandbox, how):
    event = sandbox.call(Attack(how))
    assert isinstance(event, Reply), event
    return event.value


def marked(scratch: Path) -> set[int]:
    """The processes that descend from a fork server, itself included."""
    mark, found = f"{MARK}={scratch}".encode(), set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def soon(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_a_scratch_folder_that_is_deleted_is_made_again(sandbox):
    pid = pid_after(sandbox, "remove_scratch")
    assert not sandbox.server.scratch.exists()
    assert pid_after(sandbox, "nothing") == pid
    os.kill(pid, signal.SIGKILL)
    assert pid_after(sandbox, "nothing") != pid
    assert sandbox.server.scratch.stat().st_mode & 0o777 == 0o700


def test_descendants_in_sessions_of_their_own_die_with_their_worker(sandbox):
    server = sandbox.server
    for _ in range(5):
        pid_after(sandbox, "daemon")
    assert len(marked(server.scratch)) == 7
    with Sandbox(SERVICE, server=server) as other:
        kept = pid_after(other, "daemon")
        sandbox.call(Attack("daemon_and_abort"))
        assert soon(lambda: len(marked(server.scratch)) == 3)
        assert pid_after(other, "nothing") == kept


def test_descendants_die_with_their_fork_server(sandbox):
    pid_after(sandbox, "daemon")
    scratch = sandbox.server.scratch
    os.kill(sandbox.server.pid, signal.SIGKILL)
    pid_after(sandbox, "nothing")
    assert soon(lambda: sandbox.server.pump() or not marked(scratch)) and not scratch.exists()


def test_a_start_ends_what_is_left_of_two_killed_processes(tmp_path):
    scratch = tmp_path / f"{PREFIX}{'0' * 16}"
    scratch.mkdir()
    with subprocess.Popen(["sleep", "600"], env={MARK: str(scratch)}) as left:
        sweep(tmp_path)
        try:
            assert left.wait(60) == -signal.SIGKILL
        finally:
            left.kill()
    assert not scratch.exists()


def test_a_worker_with_threads_that_compute_between_jobs_is_replaced(sandbox):
    pid = pid_after(sandbox, "thread_that_burns")

    def replaced():
        time.sleep(0.3)
        return pid_after(sandbox, "nothing") != pid

    assert soon(replaced)  # on a busy machine the thread does not always get to run


def test_a_worker_that_idles_between_jobs_is_kept(sandbox):
    pid = pid_after(sandbox, "nothing")
    time.sleep(0.3)
    assert pid_after(sandbox, "nothing") == pid


def test_a_compiler_that_kills_its_fork_server_is_tried_once_more(attacked):
    assert attacked("kill_the_fork_server").kind is OutcomeKind.CRASH


@pytest.mark.parametrize("times, kind", [(6, OutcomeKind.OK), (99, OutcomeKind.CRASH)])
def test_a_level_is_run_again_until_the_kills_must_be_its_own(attacked, tmp_path, times, kind):
    assert attacked(f"kill_often {tmp_path / 'mark'} {times}").kind is kind
    assert len((tmp_path / "mark").read_text()) == min(times, 1 + MOST_KILLS + 1)


def test_kills_of_workers_that_only_start_cost_no_job(sandbox):
    """Twice as many of them as a job survives that has begun."""
    sandbox.submit(Attack("nothing"))
    for _ in range(2 * MOST_KILLS):
        server = sandbox.server.pid
        os.kill(server, signal.SIGKILL)
        assert soon(lambda old=server: wait([sandbox], 0.01) or sandbox.server.pid != old)
    ((_, event),) = wait([sandbox])
    assert isinstance(event, Reply), event


def test_noise_on_the_control_socket_restarts_the_fork_server(sandbox):
    pid = pid_after(sandbox, "nothing")
    theirs = sandbox.server._control
    read_end, write_end = __import__("socket").socketpair(theirs.family, theirs.type)
    with write_end:
        os.dup2(read_end.fileno(), theirs.fileno())
        read_end.close()
        write_end.send(b'{"worker": "none"')
        theirs.setblocking(False)
        assert pid_after(sandbox, "nothing") != pid


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.1, 0.3])
def test_a_campaign_that_is_killed_while_libraries_load_leaves_no_folder(tmp_path, delay):
    script = "from nnfuzz.sandbox.forkserver import ForkServer; import time; "
    script += "ForkServer(('onnx.reference', 'onnx.backend.test')); print(1); time.sleep(60)"
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE)
    assert process.stdout.readline()
    time.sleep(delay)
    process.kill()
    process.communicate()

    def nobody_there():
        return not any(
            str(tmp_path).encode() in _environment(entry) for entry in Path("/proc").glob("[0-9]*")
        )

    assert soon(nobody_there)
    assert list(tmp_path.iterdir()) == []


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


def test_what_nobody_lived_to_remove_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "nnfuzz-server-0123456789abcdef" / "worker-1").mkdir(parents=True)
    (tmp_path / "nnfuzz-somebody").mkdir()
    with ForkServer() as one, Sandbox("nnfuzz.sandbox.worker:absent", server=one) as sandbox:
        sandbox.call(Attack("nothing"))
        with ForkServer():
            there = {path.name for path in tmp_path.iterdir()}
            assert one.scratch.name in there and "nnfuzz-somebody" in there
            assert "nnfuzz-server-0123456789abcdef" not in there


def test_a_fork_server_that_is_killed_while_libraries_load_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ForkServer(("onnx.reference",)) as server:
        time.sleep(0.1)
        os.kill(server.pid, signal.SIGKILL)
        assert soon(lambda: server.pump() or not server.alive)
        assert list(tmp_path.iterdir()) == []
