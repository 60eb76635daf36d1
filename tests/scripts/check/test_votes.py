"""The measure of votes runs: no legal variation is disputed, and a planted bug is counted."""

from __future__ import annotations

from scripts.check import votes


def test_the_report(capsys):
    assert votes.main(["--models", "6"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("6 models") and "0 are disputed" in told


def test_bugs_are_counted_and_are_no_alarm(capsys):
    assert votes.main(["--models", "16", "--planted"]) == 0
    assert "are disputed" in capsys.readouterr().out
