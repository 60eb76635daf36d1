"""nnfuzz bugs export."""

from pathlib import Path

from tests.bugs.conftest import ledger
from tests.command import nnfuzz

__all__ = ["ledger"]
OURS = Path(__file__).parents[3] / "docs" / "bugs"


def test_bugs_become_files_and_others_are_told(tmp_path, ledger):
    wanted = ("onnxruntime/shrink-float64", "onnxruntime/max-int64")
    at = ("--ledger", OURS, "--out", tmp_path)
    done = nnfuzz("bugs", "export", *wanted, *at)
    assert done.returncode == 0, done.stderr
    assert {p.name for p in tmp_path.glob("*.py")} == {
        "test_shrink_float64.py",
        "test_max_int64.py",
    }
    done = nnfuzz("bugs", "export", wanted[0], "--as", "onnx-node-test", *at)
    assert (tmp_path / "test_shrink_float64" / "model.onnx").is_file(), done.stderr
    ledger.script("numpy/pow").unlink()
    done = nnfuzz("bugs", "export", "numpy", "--ledger", ledger.folder, "--out", tmp_path)
    assert done.returncode == 1 and "numpy/pow: no test" in done.stderr
    done = nnfuzz("bugs", "export", wanted[0], "--as", "optester", *at)
    assert done.returncode == 2 and "there is no style 'optester': pytest" in done.stderr
