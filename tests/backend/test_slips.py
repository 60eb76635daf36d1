"""Slips of an adapter."""

from nnfuzz.backend.slips import innermost
from tests.backend.test_internal import NUMPY, error


def test_the_innermost_frame_is_that_of_the_last_error():
    trace = (
        error("KeyError").traceback + "\nDuring handling:\n\n" + error("X", file=NUMPY).traceback
    )
    assert innermost(trace)[0] == NUMPY
    assert innermost("no traceback") == ("", "")
