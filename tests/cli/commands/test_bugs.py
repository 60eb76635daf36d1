"""nnfuzz bugs, from the command line to the files and the exit code."""

from dataclasses import replace

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.bugs.bug import BugState
from nnfuzz.bugs.ledger import Ledger
from nnfuzz.cli.campaigns import known_failures
from tests.bugs.conftest import BUG, ledger
from tests.command import nnfuzz

__all__ = ["ledger"]


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
        (("list", "--state", "open"), "'open' is none of new, filed"),
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
