"""nnfuzz bugs check."""

from dataclasses import replace

import numpy as np

from nnfuzz.bugs.bug import BugState
from tests.bugs.conftest import BUG, ledger
from tests.command import nnfuzz

__all__ = ["ledger"]


def test_the_return_of_a_bug_is_exit_code_1(ledger, tmp_path):
    at = ("--ledger", ledger.folder)
    done = nnfuzz("bugs", "check", *at)
    assert done.returncode == 0 and "still there" in done.stdout
    ledger.put("numpy/pow", replace(BUG, state=BugState.FIXED, right_release="2.1"))
    look = nnfuzz("bugs", "check", *at, "--dry-run")
    assert look.returncode == 1 and ledger.bug("numpy/pow").state is BugState.FIXED
    files = {name: tmp_path / name for name in ("r.xml", "r.md")}
    written = ("--junit", files["r.xml"], "--summary-md", files["r.md"])
    done = nnfuzz("bugs", "check", "numpy", *at, *written)
    assert done.returncode == 1
    assert f"numpy/pow: back, was fixed in 2.1 (numpy {np.__version__})" in done.stdout
    assert 'failures="1"' in files["r.xml"].read_text()
    assert "numpy/pow: back" in files["r.md"].read_text()
    assert ledger.bug("numpy/pow").state is BugState.CONFIRMED


def test_places_are_named_once_and_with_their_system(ledger):
    at = ("--ledger", ledger.folder)
    done = nnfuzz("bugs", "check", "--release", "1.0", *at)
    assert done.returncode == 2 and "name the system" in done.stderr
    done = nnfuzz("bugs", "check", "numpy", "--release", "1.0", "--python", "python", *at)
    assert done.returncode == 2 and "give one of them" in done.stderr
