"""From findings to bugs, and from bugs to tests of a compiler."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.bugs.adding import CAMPAIGN, Adder, AdditionKind
from nnfuzz.bugs.bug import BugState
from nnfuzz.bugs.exporting import node_test, pytest_file
from nnfuzz.bugs.ledger import Ledger, known_bugs
from nnfuzz.corpus.layout import find_tests
from nnfuzz.findings.folder import finding_script, read_finding, write_finding
from nnfuzz.store.store import FILE
from tests.bugs.conftest import BUG, TODAY, scripted


@pytest.fixture
def campaign(finding_of, tmp_path):
    """A folder with two findings of one compiler."""
    for bug in ("raise", "value"):
        found = finding_of(f"planted,bug={bug}")
        write_finding(tmp_path / "campaign" / "findings" / found.failure.folder_name, found)
    return tmp_path / "campaign"


@pytest.fixture
def adder(registry, tmp_path):
    return Adder(Ledger(tmp_path / "bugs"), registry, TODAY, trusted=lambda folder: str)


def kinds(done):
    return [each.kind for each in done]


def test_a_campaign_is_added_once(adder, campaign):
    (first, second) = adder.add_all(campaign)
    assert kinds([first, second]) == [AdditionKind.NEW] * 2
    assert kinds(adder.add_all(campaign)) == [AdditionKind.KNOWN] * 2
    bug = adder.ledger.bug(first.name)
    assert (bug.system, bug.kind, bug.state) == ("planted", "exception", BugState.NEW)
    assert first.name.startswith("planted/exception-")
    assert bug.last_bad_release == bug.first_bad_release == "1.0"
    assert read_finding(adder.ledger.place(first.name)).failure.kind == "exception"


def test_the_ledger_knows_what_was_added(adder, campaign, registry):
    names = [each.name for each in adder.add_all(campaign)]
    known = known_bugs(adder.ledger, registry)
    for name in names:
        assert read_finding(adder.ledger.place(name)).signature.hash in known.hashes


def test_the_return_of_what_was_fixed_is_told(adder, campaign):
    first, second = adder.add_all(campaign)
    for name, release in ((first.name, "0.9"), (second.name, "1.1")):
        bug = replace(adder.ledger.bug(name), state=BugState.FIXED, right_release=release)
        adder.ledger.put(name, bug)
    assert kinds(adder.add_all(campaign)) == [AdditionKind.BACK, AdditionKind.KNOWN]
    back = adder.ledger.bug(first.name)
    assert back.state is BugState.CONFIRMED and "back in 1.0 (fixed in 0.9)" in back.notes[-1]
    assert adder.ledger.bug(second.name).state is BugState.FIXED


def test_what_fails_in_another_way_is_another_bug(adder, campaign):
    first, _ = adder.add_all(campaign)
    bug = adder.ledger.bug(first.name)
    keys = tuple(key.replace("failure:exception", "failure:crash") for key in bug.keys)
    adder.ledger.put(first.name, replace(bug, kind="crash", keys=keys))
    again = next(adder.add_all(campaign))
    assert again.kind is AdditionKind.NEW and again.name != first.name
    assert next(adder.add_all(campaign)) == replace(again, kind=AdditionKind.KNOWN)


def test_a_duplicate_counts_for_its_leader(adder, campaign):
    first, second = adder.add_all(campaign)
    gone = adder.ledger.bug(second.name)
    gone = replace(gone, state=BugState.DUPLICATE, duplicate_of=first.name)
    adder.ledger.put(second.name, gone)
    assert {each.name for each in adder.add_all(campaign)} == {first.name}


def test_one_finding_may_be_named_and_nothing_else(adder, campaign, tmp_path):
    folder = next((campaign / "findings").iterdir())
    assert kinds(adder.add_all(folder)) == [AdditionKind.NEW]
    (tmp_path / "empty").mkdir()
    (tmp_path / "clean").mkdir()
    (tmp_path / "clean" / FILE).touch()
    assert CAMPAIGN == FILE and kinds(adder.add_all(tmp_path / "clean")) == []
    with pytest.raises(Unreadable, match="neither a campaign nor a finding"):
        next(adder.add_all(tmp_path / "empty"))


def test_what_needs_an_untrusted_plugin_has_no_script(adder, campaign):
    first, _ = replace(adder, trusted=lambda folder: lambda plugin: "").add_all(campaign)
    assert first.kind is AdditionKind.NEW and "no script: needs the plug-in" in first.message
    assert not adder.ledger.script(first.name).exists()


PROGRAM = """\
WRONG = {wrong}


def run(model, inputs, level):
    from onnx.reference import ReferenceEvaluator

    session = ReferenceEvaluator(model)
    results = session.run(None, inputs)
    return dict(zip(session.output_names, [result + WRONG for result in results]))
"""


@pytest.fixture
def book(tmp_path, finding_of):
    """Two bugs of one model: wrong is there, mended is not."""
    ledger, found = Ledger(tmp_path / "bugs"), finding_of("planted,bug=value")
    for name, wrong in (("wrong", "np.float32(1)"), ("mended", "np.float32(0)")):
        script = finding_script(found, PROGRAM.format(wrong=wrong))
        ledger.add(f"planted/{name}", replace(BUG, system="planted"), scripted(script))
    return ledger


def ran(place, *options):
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *options, place], capture_output=True, text=True, timeout=60)
    return done.stdout


def test_it_fails_with_the_bug_and_passes_without_it(book, tmp_path):
    place = tmp_path / "tests"
    files = [pytest_file(book, f"planted/{name}", place, False) for name in ("wrong", "mended")]
    assert [file.name for file in files] == ["test_wrong.py", "test_mended.py"]
    assert "# Releases of planted: 1.0 to 2.0." in files[0].read_text()
    pytest_file(book, "planted/wrong", place / "green", True)
    assert "1 failed, 1 passed, 1 xfailed" in ran(place, "--import-mode=importlib")


def test_what_cannot_run_is_skipped_and_files_come_along(ledger, tmp_path):
    text = "print('cannot run: ImportError')\nraise SystemExit(125)\n"
    ledger.script("numpy/pow").write_text(text)
    (ledger.place("numpy/pow") / "model.onnx").write_bytes(b"model")
    file = pytest_file(ledger, "numpy/pow", tmp_path, False)
    assert "cannot run: ImportError" in ran(file)
    assert {p.name for p in (tmp_path / "pow").iterdir()} == {"repro.py", "model.onnx"}


def test_a_bug_without_a_script_is_refused(ledger, tmp_path):
    ledger.script("numpy/pow").unlink()
    with pytest.raises(Unreadable, match=r"has no repro\.py"):
        pytest_file(ledger, "numpy/pow", tmp_path, False)


def test_a_node_test_has_model_and_data(adder, campaign, tmp_path):
    *_, added = adder.add_all(campaign)
    folder = node_test(adder.ledger, added.name, tmp_path / "node")
    (test,) = find_tests(tmp_path / "node")
    assert test.path == folder and folder.name.startswith("test_mismatch")
    own, back = read_finding(adder.ledger.place(added.name)).case, test.case()
    for before, after in ((own.inputs, back.inputs), (own.expected, back.expected)):
        assert before and before.keys() == after.keys()
        assert all(np.array_equal(before[name], after[name]) for name in before)
    with pytest.raises(Unreadable, match="exists already"):
        node_test(adder.ledger, added.name, tmp_path / "node")


def test_a_bug_without_a_finding_gives_no_node_test(ledger, tmp_path):
    with pytest.raises(Unreadable, match="it has no model"):
        node_test(ledger, "numpy/pow", tmp_path / "node")
    assert not (tmp_path / "node" / "test_pow").exists()
