"""The first Ctrl-C is remembered."""

import os
import signal

from nnfuzz.cli.interrupt import Interrupt


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
