"""A process that does not answer is noticed, told of and replaced; a busy machine is not blamed."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

import pytest
from hostile import Misbehave

from nnfuzz.sandbox import forkserver
from nnfuzz.sandbox.events import Death, DeathKind, Limits, Reply
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.own_time import is_stopped
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
