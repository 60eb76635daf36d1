"""A bug becomes a test that fails with it and passes without it."""

import subprocess
import sys
from dataclasses import replace

import pytest

from nnfuzz.bugs.bug import BugError
from nnfuzz.bugs.exporting import node_test, pytest_file
from nnfuzz.bugs.ledger import Ledger
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
    for export in (node_test, lambda *which: pytest_file(*which, False)):
        with pytest.raises(BugError, match=r"has no repro\.py"):
            export(ledger, "numpy/pow", tmp_path)


def test_a_node_test_has_model_and_data(book, tmp_path):
    folder = node_test(book, "planted/wrong", tmp_path / "node")
    assert folder.name == "test_wrong"
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert files == {
        "model.onnx",
        "test_data_set_0/input_0.pb",
        "test_data_set_0/output_0.pb",
    }
    with pytest.raises(BugError, match="exists already"):
        node_test(book, "planted/wrong", tmp_path / "node")


def test_a_script_without_a_model_gives_no_node_test(ledger, tmp_path):
    with pytest.raises(BugError, match="it has no model"):
        node_test(ledger, "numpy/pow", tmp_path / "node")
    assert not (tmp_path / "node" / "test_pow").exists()
