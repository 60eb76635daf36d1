"""nnfuzz bugs check and refresh."""

import json
from dataclasses import replace

import numpy as np

from nnfuzz.bugs.bug import BugState
from tests.bugs.conftest import BUG, ledger
from tests.command import nnfuzz

__all__ = ["ledger"]


def test_the_return_of_a_bug_is_exit_code_1(ledger, tmp_path):
    at = ("--ledger", ledger.folder, "--no-bisect")
    done = nnfuzz("bugs", "check", *at)
    assert done.returncode == 0 and "still there" in done.stdout
    ledger.put("numpy/pow", replace(BUG, state=BugState.FIXED, right_release="2.1"))
    look = nnfuzz("bugs", "check", *at, "--dry-run")
    assert look.returncode == 1 and ledger.bug("numpy/pow").state is BugState.FIXED
    files = {name: tmp_path / name for name in ("r.json", "r.xml", "r.md")}
    written = ("--results", files["r.json"], "--junit", files["r.xml"])
    done = nnfuzz("bugs", "check", "numpy", *at, *written, "--summary-md", files["r.md"])
    assert done.returncode == 1
    assert f"numpy/pow: back, was fixed in 2.1 (numpy {np.__version__})" in done.stdout
    assert json.loads(files["r.json"].read_text())["regressions"] == ["numpy/pow"]
    assert 'failures="1"' in files["r.xml"].read_text()
    assert "numpy/pow: back" in files["r.md"].read_text()
    assert ledger.bug("numpy/pow").state is BugState.CONFIRMED


def test_places_are_named_once_and_with_their_system(ledger, tmp_path):
    at = ("--ledger", ledger.folder)
    done = nnfuzz("bugs", "check", "--release", "1.0", *at)
    assert done.returncode == 2 and "name the system" in done.stderr
    done = nnfuzz("bugs", "check", "numpy", "--release", "1.0", "--nightly", *at)
    assert done.returncode == 2 and "give one of them" in done.stderr
    done = nnfuzz("bugs", "check", "--wheel", tmp_path / "x.whl", *at)
    assert done.returncode == 2 and "not named as a wheel" in done.stderr


def test_what_has_no_model_keeps_its_script(ledger):
    done = nnfuzz("bugs", "refresh", "--ledger", ledger.folder)
    assert done.returncode == 0 and done.stdout == "numpy/pow: has no model\n"
