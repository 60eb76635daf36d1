"""Sandboxes: limits, output, and time of one's own."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hostile import Misbehave

from nnfuzz.sandbox import process
from nnfuzz.sandbox.channel import HEAD_BYTES, MARK, TAIL_BYTES, Capture
from nnfuzz.sandbox.process import OwnTime
from nnfuzz.sandbox.sandbox import (
    Death,
    DeathKind,
    Limits,
    Progress,
    Reply,
    Sandbox,
    wait,
)
from nnfuzz.sandbox.worker import SHARED_MEMORY
from tests.sandbox.conftest import MEMORY, SERVICE


@pytest.fixture
def hasty(server):
    with Sandbox(SERVICE, limits=Limits(seconds=0.3), server=server) as sandbox:
        yield sandbox


def fine(sandbox):
    event = sandbox.call(Misbehave("nothing", {"a": np.arange(3)}))
    assert isinstance(event, Reply)
    np.testing.assert_array_equal(event.value.arrays["a"], np.arange(3))
    return event.value.pid


def until_the_end(sandbox):
    """The events of the job in hand."""
    seen = []
    while not seen or isinstance(seen[-1], Progress):
        seen += [event for _, event in wait([sandbox])]
    return seen


def soon(condition):
    """A killed process needs a moment to vanish."""
    end = time.monotonic() + 5
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def gone(pid):
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("how", "kind", "signal", "code"),
    [
        ("segfault", DeathKind.CRASH, "SIGSEGV", None),
        ("abort", DeathKind.CRASH, "SIGABRT", None),
        ("fpe", DeathKind.CRASH, "SIGFPE", None),
        ("os_exit", DeathKind.EXIT, "", 3),
        ("sys_exit", DeathKind.EXIT, "", 4),
        ("raise_memory_error", DeathKind.MEMORY, "", 1),
        ("forked_child_holds_pipes", DeathKind.CRASH, "SIGSEGV", None),
    ],
)
def test_deaths(sandbox, how, kind, signal, code):
    before = fine(sandbox)
    death = sandbox.call(Misbehave(how))
    assert isinstance(death, Death)
    assert (death.kind, death.signal, death.exit_code) == (kind, signal, code)
    assert death.stage == "compile here"
    assert soon(lambda: gone(before))
    assert fine(sandbox) != before


def test_a_damaged_answer_is_a_crash(sandbox):
    fine(sandbox)
    death = sandbox.call(Misbehave("scribble"))
    assert (death.kind, death.signal) == (DeathKind.CRASH, "SIGKILL")
    assert "damaged" in death.note
    fine(sandbox)


def test_grandchildren_die_with_their_worker(sandbox):
    fine(sandbox)
    assert isinstance(sandbox.call(Misbehave("forked_child_holds_pipes")), Death)
    assert soon(lambda: processes_in(sandbox.server.scratch) == [])


def test_a_crash_leaves_a_python_trace(sandbox):
    death = sandbox.call(Misbehave("segfault"))
    assert "Segmentation fault" in death.captured
    assert "in _segfault" in death.captured
    assert "Extension modules" not in death.captured


@pytest.mark.parametrize("how", ["hang", "hang_holding_the_gil", "spin"])
def test_hangs_are_killed_at_the_limit(hasty, how):
    fine(hasty)
    death = hasty.call(Misbehave(how))
    assert (death.kind, death.stage) == (DeathKind.TIMEOUT, "compile here")
    assert 0.3 <= death.seconds < 1.0
    fine(hasty)


@pytest.mark.parametrize("how", ["allocate", "allocate_in_c"])
def test_endless_allocation_dies_early(sandbox, how):
    fine(sandbox)
    death = sandbox.call(Misbehave(how))
    assert isinstance(death, Death)
    # C code that ignores a failed malloc dies of a null pointer before or after the watch strikes.
    assert death.kind is DeathKind.MEMORY or death.signal == "SIGSEGV"
    fine(sandbox)


def test_a_bomb_is_one_of_memory_at_a_short_limit_as_well(server):
    limits = Limits(seconds=0.7, memory_bytes=MEMORY)
    with Sandbox(SERVICE, limits=limits, server=server) as sandbox:
        fine(sandbox)
        assert sandbox.call(Misbehave("swell")).kind is DeathKind.MEMORY
        assert sandbox.call(Misbehave("hang")).seconds < 1.2


def test_a_job_may_have_less_time_than_the_limit(sandbox):
    fine(sandbox)
    sandbox.submit(Misbehave("hang"), seconds=0.2)
    ((_, death),) = wait([sandbox])
    assert (death.kind, death.stage) == (DeathKind.TIMEOUT, "compile here")
    assert death.seconds < sandbox.limits.seconds


def test_much_output_takes_no_longer_than_to_print_it(sandbox):
    """256 MB, in less than the five seconds of the limit."""
    event = sandbox.call(Misbehave("print_much"))
    assert isinstance(event, Reply) and "bytes left out" in event.captured
    fine(sandbox)


def test_endless_output_ends_at_the_limit_and_leaves_others_alone(hasty, server):
    with Sandbox(SERVICE, server=server) as other:
        fine(other)
        fine(hasty)
        hasty.submit(Misbehave("print_forever"))
        start, answers = time.monotonic(), 0
        while True:
            if not other.busy:
                other.submit(Misbehave("nothing"))
            events = dict(wait([hasty, other]))
            answers += other in events
            if hasty in events:
                break
        assert events[hasty].kind is DeathKind.TIMEOUT
        assert len(events[hasty].captured) < 70_000
        assert time.monotonic() - start < 10.0
        assert answers > 20


def test_a_partial_answer_survives_the_death_after_it(sandbox):
    sandbox.submit(Misbehave("segfault", {"a": np.ones(2)}, partial=True))
    part, death = until_the_end(sandbox)
    np.testing.assert_array_equal(part.value.arrays["a"], np.ones(2))
    assert death.stage == "execute there"


def test_a_death_between_jobs_costs_no_job(sandbox):
    first = sandbox.call(Misbehave("die_later")).value
    time.sleep(0.3)
    assert fine(sandbox) != first.pid


def test_a_worker_is_replaced_after_its_share_of_jobs(server):
    with Sandbox(SERVICE, limits=Limits(jobs_per_process=2), server=server) as sandbox:
        pids = [fine(sandbox) for _ in range(5)]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]


def test_several_sandboxes_run_at_once(server):
    sandboxes = [Sandbox(SERVICE, limits=Limits(seconds=1.0), server=server) for _ in range(3)]
    for sandbox in sandboxes:
        fine(sandbox)
        sandbox.submit(Misbehave("hang"))
    start = time.monotonic()
    deaths = 0
    while deaths < 3:
        deaths += len(wait(sandboxes))
    assert time.monotonic() - start < 2.9  # one after the other, they take 3.0
    for sandbox in sandboxes:
        sandbox.close()


def test_wait_times_out_and_returns_at_once_when_nothing_runs(sandbox):
    assert wait([sandbox]) == []
    fine(sandbox)
    sandbox.submit(Misbehave("hang"))
    start = time.monotonic()
    assert wait([sandbox], 0.1) == []
    assert 0.1 <= time.monotonic() - start < 3.0
    with pytest.raises(RuntimeError, match="busy"):
        sandbox.submit(Misbehave("nothing"))


def processes_in(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if Path(os.readlink(entry / "cwd")).is_relative_to(folder):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("how", ["abort", "segfault"])
def test_last_words_belong_to_the_death_and_not_to_the_answer_before(server, how):
    with Sandbox(SERVICE, limits=Limits(seconds=5.0), server=server) as sandbox:
        for _ in range(5):
            sandbox.submit(Misbehave("say_and_" + how, say="before", partial=True))
            time.sleep(0.1)  # the worker is dead by now: answer and last words come together
            progress, death = until_the_end(sandbox)
            assert progress.captured == "before\n"
            assert "the last words" in death.captured and "before" not in death.captured


def test_output_is_credited_even_if_the_service_has_closed_its_streams(sandbox):
    sandbox.call(Misbehave("close_stdout"))
    sandbox.submit(Misbehave(say="before", partial=True))
    seen = until_the_end(sandbox)
    assert [event.captured for event in seen] == ["before\n", ""]


# What a job prints, cut at marks.


@pytest.fixture
def pipe():
    output, theirs = os.pipe()
    os.set_blocking(output, False)
    capture = Capture(output)
    yield capture, theirs
    capture.close()
    os.close(theirs)


@pytest.mark.parametrize("cut", range(len(MARK) + 1))
def test_a_mark_may_come_in_two_pieces(pipe, cut):
    capture, theirs = pipe
    os.write(theirs, b"one" + MARK[:cut])
    capture.drain()
    os.write(theirs, MARK[cut:] + b"two")
    capture.drain()
    assert capture.take() == "one"
    assert capture.take() == "two"


def test_what_only_begins_like_a_mark_is_kept(pipe):
    capture, theirs = pipe
    os.write(theirs, b"a\0nnfuzz\0\0nn")
    capture.drain()
    assert capture.take() == "a\\x00nnfuzz\\x00\\x00nn"


def test_each_part_keeps_its_own_ends(pipe):
    capture, theirs = pipe
    for letter in (b"a", b"b"):
        for _ in range(3):
            os.write(theirs, letter * (1 << 15))
            capture.drain()
        os.write(theirs, MARK)
        capture.drain()
    lost = 3 * (1 << 15) - HEAD_BYTES - TAIL_BYTES
    text = capture.take()
    assert set(text.split("\n... ")[0]) == {"a"} and f"{lost} bytes left out" in text
    assert capture.total == 0
    assert "a" * 100 not in capture.take() and capture.take() == ""


def test_the_rest_of_a_dead_worker_is_all_there_is(pipe):
    capture, theirs = pipe
    os.write(theirs, b"one" + MARK + b"two\0nn")
    capture.drain()
    assert capture.take_all() == "onetwo\\x00nn"
    assert capture.take_all() == ""


# Time that counts only while its owner can use it.


class Clock:
    """Figures of a machine, which a test sets."""

    def __init__(self, monkeypatch) -> None:
        self.now = self.waited = 0.0
        monkeypatch.setattr(process.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(process, "core_wait", lambda pid: self.waited)

    def go_on(self, clock: OwnTime, seconds: float, share: float = 1.0) -> float:
        """Looks every tenth of a second; a process has a core for that share. When 10 s are over,
        or infinity.
        """
        for step in range(round(10 * seconds)):
            self.now += 0.1
            self.waited += 0.1 * (1 - share)
            if clock.exceeds(10.0, 1):
                return step / 10
        return float("inf")


def test_waiting_for_a_core_does_not_count(monkeypatch):
    machine = Clock(monkeypatch)
    assert 9.9 < machine.go_on(OwnTime(), 60) < 10.2
    assert 90 < machine.go_on(OwnTime(), 200, share=0.1) < 101


def test_time_in_which_nobody_looked_does_not_count(monkeypatch):
    machine = Clock(monkeypatch)
    clock = OwnTime()
    machine.now += 3600.0
    assert not clock.exceeds(10.0, 1) and clock.seconds <= process.LOOK_SECONDS
    assert 8.0 < machine.go_on(clock, 60) < 10.0


# Files in shared memory go with the process that made them.


LEFT = """
import os, sys
from pathlib import Path
from nnfuzz.sandbox.worker import own_shared_memory
from nnfuzz.sandbox.zygote import prctl
if sys.argv[3:]:  # a user without privileges
    os.setgid(65534), os.setuid(65534)
    prctl(4, 1)  # PR_SET_DUMPABLE, which a change of the user clears
owned = own_shared_memory()
Path("/dev/shm", sys.argv[1]).write_bytes(b"left")
print(owned, sorted(os.listdir("/dev/shm")) == [sys.argv[1]], os.access(sys.argv[2], os.W_OK))
"""


@pytest.mark.parametrize("unprivileged", [False, True])
def test_what_is_left_in_shared_memory_goes_with_the_process(tmp_path, unprivileged):
    name = f"nnfuzz-test-{tmp_path.name}"
    others = ("/tmp", "unprivileged") if unprivileged else (str(tmp_path),)
    done = subprocess.run(
        [sys.executable, "-c", LEFT, name, *others], capture_output=True, text=True
    )
    left = SHARED_MEMORY / name
    left_there = left.exists()
    left.unlink(missing_ok=True)
    if not done.stdout.startswith("True"):
        pytest.skip(f"no namespaces here: {done.stderr or done.stdout}")
    assert not left_there and done.stdout == "True True True\n"
