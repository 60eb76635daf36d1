"""A real cluster on this machine, if Ray is here: minutes, so it is slow."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from nnfuzz.campaign.lending import Lent, Report
from nnfuzz.campaign.observer import Snapshot
from nnfuzz.cluster.node import Link

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not here")
def test_a_cluster_makes_what_one_process_makes(tmp_path):
    script = [sys.executable, str(ROOT / "scripts" / "check_cluster.py"), "--tests", "60"]
    fuzz = ["--exporter", "direct", "--nodes", "3", "--no-reduce", "--probe", "1s"]
    done = subprocess.run(
        [*script, "--nodes", "2", "--out", str(tmp_path), "--", *fuzz],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests: the same" in done.stdout and "signatures: the same" in done.stdout


def test_what_could_not_be_said_is_said_again():
    heard, silent = [], True

    def call(report, shown):
        if silent:
            raise ConnectionError("killed")
        heard.append((report, shown))
        return Lent()

    link = Link(call, "host", "n1")
    link.note("a note")
    link.update(Snapshot("fuzzing", 9.0, None, 4, 3, 2.5, {"ok": 3}, 0, 0, 0, 0, 0.5))
    with pytest.raises(OSError):
        link.sync(Report("n"))
    silent = False
    assert link.sync(Report("n")) == link.sync(Report("n")) == Lent()
    assert [shown.notes for _, shown in heard] == [("a note",), ()]
    assert str(heard[0][1]) == "host: fuzzing, 3 tests, 2.5/s"
