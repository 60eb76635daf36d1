"""Messages and output that do not fit into a buffer."""

import time

import numpy as np
from hostile import Misbehave

from nnfuzz.sandbox.sandbox import (
    Reply,
    wait,
)
from tests.sandbox.test_sandbox import fine


def test_megabytes_of_output_keep_both_ends(sandbox):
    event = sandbox.call(Misbehave("print_megabytes"))
    assert isinstance(event, Reply)
    assert len(event.captured) < 70_000
    assert "the first line" in event.captured
    assert event.captured.endswith("the last line\n")
    assert "bytes left out" in event.captured
    assert sandbox.call(Misbehave("nothing")).captured == ""


def test_large_frames_pass_without_blocking_the_submitter(sandbox):
    fine(sandbox)
    array = np.random.default_rng(0).random(4 << 20)
    start = time.monotonic()
    sandbox.submit(Misbehave("nothing", {"a": array}))
    assert time.monotonic() - start < 2.0
    ((_, event),) = wait([sandbox])
    np.testing.assert_array_equal(event.value.arrays["a"], array)
