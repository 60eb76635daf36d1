"""Every way to die is told apart, names its stage, and costs one job."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from hostile import Misbehave

from nnfuzz.sandbox.sandbox import (
    Death,
    DeathKind,
    Limits,
    Progress,
    Reply,
    Sandbox,
    wait,
)
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
    assert sandbox.waited >= 0.0
    ((_, death),) = wait([sandbox])
    assert (death.kind, death.stage) == (DeathKind.TIMEOUT, "compile here")
    assert sandbox.waited == 0.0
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
    sandboxes = [
        Sandbox(SERVICE, limits=Limits(seconds=1.0), server=server, name=str(i)) for i in range(3)
    ]
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
