"""What producers are asked for, and when a campaign has asked for everything."""

from __future__ import annotations

from nnfuzz.campaign.jobs import JobSource
from nnfuzz.campaign.probe import Prober
from nnfuzz.campaign.support import Support

KEY = "direct:Relu(float32)->float32"


def supply(limit, done=(), probes=()):
    prober = Prober({"toy": Support("toy")}, [KEY], {})
    prober.ask(probes)
    return JobSource(limit, set(done), prober, produced=lambda *end: None)


def asked(made, count):
    jobs = [made.test() for _ in range(count)]
    return [job.header.get("index") if job else None for job in jobs]


def test_what_earlier_sessions_did_is_left_out():
    made = supply(5, done=[0, 3])
    assert asked(made, 4) == [1, 2, 4, None]
    assert not made.left


def test_without_a_limit_there_is_always_something_left():
    made = supply(None, done=[1])
    assert asked(made, 3) == [0, 2, 3]
    assert made.left


def test_probes_and_tests_take_turns():
    made = supply(2, probes=[KEY])
    headers = [made.test().header["do"] for _ in range(3)]
    assert headers == ["probe", "produce", "produce"]
    assert made.probe() is None
