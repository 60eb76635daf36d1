"""A process that does not answer is noticed, told of and replaced; a busy machine is not blamed."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

import pytest
from hostile import Misbehave

from nnfuzz.sandbox import forkserver, own_time
from nnfuzz.sandbox.events import Death, DeathKind, Limits, Reply
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.own_time import OwnTime, is_stopped
from nnfuzz.sandbox.sandbox import Sandbox, wait

SERVICE = "hostile:make"
SHORT = Limits(seconds=0.4, still_seconds=0.4)


@pytest.fixture
def sandbox(server):
    with Sandbox(SERVICE, limits=SHORT, name="producer 1", server=server) as sandbox:
        yield sandbox


def end_of(sandbox):
    while True:
        for _, event in wait([sandbox]):
            return event


def test_a_worker_that_is_stopped_is_replaced_and_its_job_done_by_another(sandbox):
    before = sandbox.call(Misbehave("nothing")).value.pid
    os.kill(before, signal.SIGSTOP)
    end = time.monotonic() + 5.0
    while not is_stopped(before) and time.monotonic() < end:
        time.sleep(0.01)
    assert is_stopped(before) and not is_stopped(os.getpid())
    sandbox.submit(Misbehave(name="seed 1 index 7"))
    event = end_of(sandbox)
    assert isinstance(event, Reply) and event.value.pid != before
    (told,) = sandbox.take_standstills()
    assert str(told) == "producer 1 has not answered for 0 s (seed 1 index 7): replaced"
    assert sandbox.take_standstills() == []


def test_a_compiler_that_is_stopped_has_not_hung(server):
    with Sandbox(SERVICE, limits=Limits(seconds=0.3), name="a", server=server) as sandbox:
        os.kill(sandbox.call(Misbehave("nothing")).value.pid, signal.SIGSTOP)
        assert isinstance(sandbox.call(Misbehave("nothing")), Reply)
        assert len(sandbox.take_standstills()) == 1


def test_an_endless_loop_costs_its_job_and_is_told_with_its_place(sandbox):
    sandbox.call(Misbehave("nothing"))
    death = sandbox.call(Misbehave("spin"))
    assert isinstance(death, Death) and death.kind is DeathKind.TIMEOUT
    (told,) = sandbox.take_standstills()
    assert "stage compile here" in str(told) and "in _spin" in str(told)
    assert isinstance(sandbox.call(Misbehave("nothing")), Reply)


def test_what_waits_for_ever_is_tried_once_more(sandbox):
    sandbox.call(Misbehave("nothing"))
    death = sandbox.call(Misbehave("wait"))
    assert isinstance(death, Death) and death.kind is DeathKind.STANDSTILL
    assert len(sandbox.take_standstills()) == 2


def test_a_service_that_waits_for_nothing_that_computes_stands_still(server):
    limits = replace(SHORT, seconds=60.0)
    with Sandbox(SERVICE, limits=limits, name="reducer 1", server=server) as sandbox:
        sandbox.call(Misbehave("nothing"))
        begun = time.monotonic()
        assert sandbox.call(Misbehave("wait")).kind is DeathKind.STANDSTILL
        assert time.monotonic() - begun < 10.0


@pytest.mark.parametrize("importing", [False, True])
def test_a_fork_server_that_is_stopped_is_replaced(monkeypatch, importing):
    monkeypatch.setattr(forkserver, "ANSWER_SECONDS", 0.3)
    limits = Limits(jobs_per_process=1, start_seconds=0.5 if importing else 30.0)
    with (
        ForkServer(("numpy",), name="producers") as server,
        Sandbox(SERVICE, limits=limits, server=server) as sandbox,
    ):
        if not importing:
            assert isinstance(sandbox.call(Misbehave("nothing")), Reply)
        os.kill(server.pid, signal.SIGSTOP)
        if importing:
            sandbox.limits = replace(limits, start_seconds=0.5)
            sandbox.submit(Misbehave("nothing"))
            while not server.standstills:
                wait([sandbox], 0.05)
            sandbox.limits = Limits()
            event = end_of(sandbox) if sandbox.busy else sandbox.call(Misbehave("nothing"))
        else:
            event = sandbox.call(Misbehave("nothing"))
        assert isinstance(event, Reply)
        (told,) = sandbox.take_standstills()
        assert told.who == "fork server of producers"


class Clock:
    """Of a machine of which a test says how it is."""

    def __init__(self, monkeypatch) -> None:
        self.now = self.waited = 0.0
        monkeypatch.setattr(own_time.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(own_time, "core_wait", lambda pid: self.waited)

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
    assert not clock.exceeds(10.0, 1) and clock.seconds <= own_time.LOOK_SECONDS
    assert 8.0 < machine.go_on(clock, 60) < 10.0
