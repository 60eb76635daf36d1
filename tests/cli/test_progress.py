"""Progress in lines, and Ctrl-C."""

from __future__ import annotations

import io
import os
import signal
from dataclasses import replace

from nnfuzz.cli.progress import Interrupt, Lines, line
from nnfuzz.records.observer import CampaignSnapshot, counted


def test_one_is_no_plural():
    assert [counted(n, "test") for n in (0, 1, 2)] == ["0 tests", "1 test", "2 tests"]


def test_progress_in_plain_lines():
    stream = io.StringIO()
    lines = Lines(stream, every=3600)
    state = CampaignSnapshot("fuzzing", 75.0, 30.0, 8, 2.5, {"ok": 15, "crash": 1}, 1, 2, 0, 0.5)
    lines.update(state)
    assert stream.getvalue() == ""
    lines.note("something")
    Lines(stream, every=0).update(state)
    assert stream.getvalue().splitlines() == [
        "note: something",
        "[1m15s, 30s left] fuzzing: 8 tests, 2.5/s, ok 15 crash 1, 1 finding (2 times), "
        "50% of the time in compilers",
    ]


def test_the_reduction_phase_tells_its_own_time_left():
    state = CampaignSnapshot("reducing", 75.0, 22.0, 8, 2.5, {"ok": 15}, 4, 9, 0, 0.5)
    state = replace(state, unreduced=3)
    assert line(state) == "[22s left] reducing: 3 findings to be reduced of 4, 8 tests done"


def test_the_first_signal_is_remembered_and_handlers_come_back(capsys):
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        assert not interrupt.asked()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.asked()
    assert signal.getsignal(signal.SIGINT) is before
    assert "press Ctrl-C again to kill" in capsys.readouterr().err


def test_several_hangups_of_a_terminal_do_not_kill():
    with Interrupt() as interrupt:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGHUP)
        assert interrupt.asked()
