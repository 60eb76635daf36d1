"""A bug becomes a test that fails with it, passes without it, and reads like its suite's."""

import subprocess
import sys
from dataclasses import replace

import pytest

from nnfuzz.bugs.bug import BugError
from nnfuzz.bugs.exporting import exported_test
from nnfuzz.bugs.ledger import Ledger
from nnfuzz.bugs.scripts import node_test
from nnfuzz.findings.folder import finding_script
from tests.bugs.conftest import BUG, scripted

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


def ran(folder, file, text):
    folder.mkdir(exist_ok=True)
    (folder / file).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", file]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_it_fails_with_the_bug_and_passes_without_it(book, tmp_path):
    for name, wanted in (("planted/wrong", "1 failed"), ("planted/mended", "1 passed")):
        done = ran(tmp_path / "tests", *exported_test(book, name, False))
        assert wanted in done.stdout, done.stdout
    file, text = exported_test(book, "planted/wrong", True)
    assert "1 xfailed" in ran(tmp_path / "tests", file, text).stdout
    assert file == "test_wrong.py" and "# Fails in planted 1.0 to 2.0." in text
    assert "sys.exit" not in text and "nnfuzz import" not in text


def test_a_crash_that_is_expected_is_not_run(book):
    book.put("planted/wrong", replace(book.bug("planted/wrong"), kind="crash"))
    assert "run=False" in exported_test(book, "planted/wrong", True)[1]


def test_what_no_test_can_be_made_of_is_refused(ledger):
    with pytest.raises(BugError, match=r"does not end with sys\.exit"):
        exported_test(ledger, "numpy/pow", False)
    form = "def load(): ...\ndef run(m, i, l): ...\ndef main(l): ...\nmain('a' if 0 else 'O0'))\n"
    ledger.script("numpy/pow").write_text(form.replace("0'))", "0')"))
    with pytest.raises(BugError, match=r"does not end with sys\.exit"):
        exported_test(ledger, "numpy/pow", False)
    ledger.script("numpy/pow").unlink()
    with pytest.raises(BugError, match=r"has no repro\.py"):
        exported_test(ledger, "numpy/pow", False)


def test_a_script_that_somebody_has_written_is_a_test_as_well(ledger):
    ledger.script("numpy/pow").write_text("import sys\n\nx = 1\nsys.exit(0 if x == 2 else 1)\n")
    _, text = exported_test(ledger, "numpy/pow", False)
    assert "def test_pow():\n    x = 1\n    assert x == 2" in text


def test_a_node_test_has_model_and_data(book, tmp_path):
    folder = node_test(book.script("planted/wrong"), tmp_path / "node")
    assert folder.name == "test_wrong"
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert files == {
        "model.onnx",
        "test_data_set_0/input_0.pb",
        "test_data_set_0/output_0.pb",
    }
    with pytest.raises(BugError, match="exists already"):
        node_test(book.script("planted/wrong"), tmp_path / "node")


def test_a_script_without_a_model_gives_no_node_test(ledger, tmp_path):
    with pytest.raises(BugError):
        node_test(ledger.script("numpy/pow"), tmp_path / "node")
    assert not (tmp_path / "node" / "test_pow").exists()
