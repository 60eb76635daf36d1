"""What a job prints, cut at marks."""

import os

import pytest

from nnfuzz.sandbox.capture import HEAD_BYTES, MARK, TAIL_BYTES, Capture


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
