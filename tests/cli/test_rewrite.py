"""`nnfuzz rewrite`: one model becomes several with the same meaning."""

from __future__ import annotations

import onnx
from onnx import parser

from tests.command import nnfuzz

MODEL = """
<ir_version: 9, opset_import: ["" : 20]>
small (float[2, 3] x) => (float[2, 3] y) { r = Relu (x) y = Add (r, x) }
"""


def run(*words: object):
    return nnfuzz("rewrite", *words)


def test_models_are_drawn_and_made_again(tmp_path):
    file = tmp_path / "small.onnx"
    onnx.save(parser.parse_model(MODEL), file)
    first = run(file, "--out", tmp_path / "a", "--count", 3)
    again = run(file, "--out", tmp_path / "b", "--count", 3)
    assert first.returncode == again.returncode == 0, first.stdout
    made = sorted((tmp_path / "a").iterdir())
    assert len(made) == 3
    for one in made:
        onnx.checker.check_model(one, full_check=True)
        assert one.read_bytes() == (tmp_path / "b" / one.name).read_bytes() != file.read_bytes()


def test_mistakes_are_told(tmp_path):
    file = tmp_path / "none.onnx"
    assert run().returncode != 0
    file.write_bytes(b"no model")
    for words in ([file, "--out", tmp_path], [tmp_path / "gone.onnx", "--out", tmp_path]):
        found = run(*words)
        assert found.returncode != 0 and "Traceback" not in found.stderr
