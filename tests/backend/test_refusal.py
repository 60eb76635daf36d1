"""Lines in which a compiler states that it lacks something."""

import pytest

from nnfuzz.backend.refusal import refusing_lines


@pytest.mark.parametrize(
    "line",
    [
        "UNSUPPORTED_NODE: Loop",
        "bf16 is not yet supported on this device",
        "Only rank 4 is supported",
        "no kernel for float8",
        "pads must be a constant",
        "unknown type: 'float8_e4m3fn'",
        "Limitation: accepting only a constant as the input B",
        "the kernel accepts only 4 bits",
    ],
)
def test_what_is_missing_is_a_refusal(line):
    assert refusing_lines(["ok", line]) == [line]


@pytest.mark.parametrize(
    "line",
    [
        "int64 is not supported, falling back to int32",
        "unsupported attribute will be ignored",
        "index out of range",
        "assertion failed: rank == 4",
    ],
)
def test_what_is_done_instead_and_accidents_are_none(line):
    assert refusing_lines([line]) == []
