"""Programs that are run: what they print is bounded, and nothing of them is left."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from nnfuzz.base.programs import MOST_PRINTED, run_program

LEAVING = (
    "import subprocess, sys; "
    "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); print(p.pid)"
)


def ends(pid: int) -> bool:
    """Whether a process has ended, or does so within some seconds."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def test_the_end_of_what_is_printed_is_kept():
    script = f"import sys; sys.stdout.write('x' * {4 * MOST_PRINTED}); print('the last line')"
    done = run_program([sys.executable, "-c", script])
    assert len(done.stdout) == MOST_PRINTED and done.stdout.endswith("xthe last line\n")


def test_a_child_that_is_left_with_the_streams_is_ended():
    done = run_program([sys.executable, "-c", LEAVING], timeout=60.0)
    assert ends(int(done.stdout))


def test_the_children_of_what_takes_too_long_end_with_it(tmp_path):
    script = f"import os; os.chdir({str(tmp_path)!r}); open('pid', 'w').write(str(os.fork() or "
    script += "os.getpid())); import time; time.sleep(600)"
    with pytest.raises(subprocess.TimeoutExpired):
        run_program([sys.executable, "-c", script], timeout=3.0)
    assert ends(int((tmp_path / "pid").read_text()))
