"""nnfuzz bugs, from the command line to the files and the exit code."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.bugs.bug import BugState
from nnfuzz.bugs.ledger import Ledger
from nnfuzz.cli.campaigns import known_failures
from tests.bugs.conftest import BUG, ledger
from tests.command import nnfuzz

__all__ = ["ledger"]
OURS = Path(__file__).parents[2] / "docs" / "bugs"


def test_a_campaign_is_added_listed_and_shown(finding, plugin, tmp_path):
    book = tmp_path / "book"
    for told in ("1 new", "1 known"):
        done = nnfuzz("bugs", "add", finding, "-l", book, "--plugin", plugin)
        assert done.returncode == 0 and done.stdout.endswith(f"{told}\n"), done.stderr
    done = nnfuzz("bugs", "list", "--ledger", book)
    (name,) = Ledger(book).names()
    assert f"new       {name}" in done.stdout and done.stdout.endswith("1 new\n")
    shown = nnfuzz("bugs", "show", name, "--ledger", book).stdout
    assert 'kind = "mismatch"' in shown and "model.onnx" in shown
    assert known_failures(book, BackendRegistry.discover())


def test_fields_and_states_are_set(ledger):
    at = ("--ledger", ledger.folder)
    assert not nnfuzz(
        "bugs", "set", "numpy/pow", "state=filed", "operators=Pow,Add", *at
    ).returncode
    bug = ledger.bug("numpy/pow")
    assert (bug.state, bug.operators) == (BugState.FILED, ("Pow", "Add"))
    ledger.add("numpy/other", replace(BUG, signatures=()))
    gone = ("state=duplicate", "duplicate_of=numpy/pow")
    assert not nnfuzz("bugs", "set", "numpy/other", *gone, *at).returncode
    assert ledger.bug("numpy/other").duplicate_of == "numpy/pow"
    listed = nnfuzz("bugs", "list", "--state", "filed", *at).stdout
    assert listed.splitlines()[-1] == "1 filed"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("set", "numpy/pow", "stat=filed"), "write FIELD=VALUE; fields are title"),
        (("set", "numpy/pow", "state=done"), "state: 'done' is none of new, filed"),
        (("show", "numpy/pwo"), "did you mean 'numpy/pow'"),
        (("list", "--state", "open"), "'open' is not one of 'new', 'filed'"),
        (("list", "tvm"), "has no bug 'tvm'"),
        (("add", "/no/such/campaign"), "neither a campaign nor a finding"),
    ],
)
def test_a_mistake_is_one_line(ledger, arguments, message):
    done = nnfuzz("bugs", *arguments, "--ledger", ledger.folder)
    assert done.returncode == 2 and message in done.stderr
    assert ledger.bug("numpy/pow") == BUG


def test_a_ledger_with_a_mistake_by_hand_is_refused(ledger):
    (ledger.place("numpy/pow") / "bug.toml").write_text("title = 'a'\n")
    done = nnfuzz("bugs", "list", "--ledger", ledger.folder)
    assert done.returncode == 2 and "bug.toml: system is missing" in done.stderr
    done = nnfuzz("fuzz", "-b", "onnxruntime", "--known", ledger.folder, "--tests", 1)
    assert done.returncode == 2 and "bug.toml: system is missing" in done.stderr


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


def test_bugs_become_files_and_others_are_told(tmp_path, ledger):
    wanted = ("onnxruntime/shrink-float64", "onnxruntime/max-int64")
    at = ("--ledger", OURS, "--out", tmp_path)
    done = nnfuzz("bugs", "export", *wanted, *at)
    assert done.returncode == 0, done.stderr
    assert {p.name for p in tmp_path.glob("*.py")} == {
        "test_shrink_float64.py",
        "test_max_int64.py",
    }
    found = "onnxruntime/attention-fusion-float64"
    done = nnfuzz("bugs", "export", found, "--as", "onnx-node-test", *at)
    assert (tmp_path / "test_attention_fusion_float64" / "model.onnx").is_file(), done.stderr
    ledger.script("numpy/pow").unlink()
    done = nnfuzz("bugs", "export", "numpy", "--ledger", ledger.folder, "--out", tmp_path)
    assert done.returncode == 1 and "numpy/pow: no test" in done.stderr
    done = nnfuzz("bugs", "export", wanted[0], "--as", "optester", *at)
    assert done.returncode == 2 and "there is no style 'optester': pytest" in done.stderr
