"""What producers are asked for, and when a campaign has asked for everything."""

from __future__ import annotations

import math
from dataclasses import replace

from nnfuzz.campaign.jobs import MOST_RETURNS, Indexes, JobSource
from nnfuzz.feedback.probe import Prober
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.sandbox.events import Death, DeathKind, Reply
from nnfuzz.testcase.identity import Numbered
from nnfuzz.testcase.jobs import Produce

KEY = SupportKey("direct", "Relu", "(float32)->float32")


def source(limit, done=(), probes=(), end=100):
    prober = Prober({"toy": ("O0",)}, [KEY], {})
    prober.ask(probes)
    made = JobSource(1, Indexes(limit, set(done).__contains__), prober, produced=lambda *end: None)
    made.end = end
    return made


def asked(made, count):
    jobs = [made.test() for _ in range(count)]
    return [job.job.test.index if job else None for job in jobs]


def kinds(made, count):
    return [str(made.test().job.test).partition(" ")[0] for _ in range(count)]


def test_what_earlier_sessions_did_is_left_out():
    made = source(5, done=[0, 3])
    assert asked(made, 4) == [1, 2, 4, None]
    assert not made.left


def test_without_a_limit_there_is_always_something_left():
    made = source(None, done=[1])
    assert asked(made, 3) == [0, 2, 3]
    assert made.left


def test_probes_and_tests_take_turns():
    made = source(2, probes=[KEY])
    assert kinds(made, 3) == ["probe", "test", "test"]
    assert made.probe() is None


def test_nothing_is_handed_out_beyond_the_epoch_but_probes():
    made = source(5, probes=[KEY], end=1)
    assert kinds(made, 2) == ["probe", "test"]
    assert made.test() is None and made.left and made.next_index == 1
    made.end = 2
    assert asked(made, 2) == [1, None]


def test_what_was_killed_from_outside_is_handed_out_again_a_few_times():
    made = source(2)
    assert asked(made, 3) == [0, 1, None] and not made.left
    killed = Produce(Numbered(1, 0))
    for _ in range(MOST_RETURNS):
        assert made.put_back(killed) and made.left
        assert made.next_index == math.inf, "no epoch begins for it"
        assert asked(made, 2) == [0, None]
    assert not made.put_back(killed) and not made.left


def test_an_exporter_that_dies_is_not_asked_again():
    ended = []
    prober = Prober({"toy": ("O0",)}, [KEY], {})
    jobs = JobSource(
        1, Indexes(1, set().__contains__), prober, produced=lambda *end: ended.append(end)
    )
    jobs.end = 1
    first = jobs.test()
    died = Death(DeathKind.CRASH, "export", "SIGFPE", None, "Floating point exception", 0.1)
    first.done(died, 0, 0.1)
    assert not ended and jobs.left
    again = jobs.test()
    assert again.job == Produce(Numbered(1, 0), ("SIGFPE", "Floating point exception"))
    again.done(died, 0, 0.1)  # it has died of something else
    assert ended == [(Numbered(1, 0), died, 0)] and not jobs.left


def test_only_a_crash_within_the_exporter_is_the_exporters():
    job = Produce(Numbered(1, 0))
    died = Death(DeathKind.CRASH, "export", "SIGSEGV", None, "", 0.1)
    assert job.after(died) is not None
    for other in (
        replace(died, stage="inputs"),
        replace(died, kind=DeathKind.TIMEOUT),
        replace(died, signal="SIGKILL"),
        Reply(None),
    ):
        assert job.after(other) is None
