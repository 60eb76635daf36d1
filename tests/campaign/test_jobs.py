"""What producers are asked for, and when a campaign has asked for everything."""

from __future__ import annotations

from nnfuzz.campaign.jobs import JobSource
from nnfuzz.campaign.probe import Prober

KEY = "direct:Relu(float32)->float32"


def source(limit, done=(), probes=(), end=100):
    prober = Prober({"toy": ("O0",)}, [KEY], {})
    prober.ask(probes)
    made = JobSource(limit, set(done), prober, produced=lambda *end: None)
    made.end = end
    return made


def asked(made, count):
    jobs = [made.test() for _ in range(count)]
    return [job.header.get("index") if job else None for job in jobs]


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
    headers = [made.test().header["do"] for _ in range(3)]
    assert headers == ["probe", "produce", "produce"]
    assert made.probe() is None


def test_nothing_is_handed_out_beyond_the_epoch_but_probes():
    made = source(5, probes=[KEY], end=1)
    assert [made.test().header["do"] for _ in range(2)] == ["probe", "produce"]
    assert made.test() is None and made.left and made.next_index == 1
    made.end = 2
    assert asked(made, 2) == [1, None]
