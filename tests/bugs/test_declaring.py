"""A script's model is declared for the oldest opset, if the bug stays what it is."""

from __future__ import annotations

import sys
from functools import partial

from nnfuzz.bugs.declaring import at_oldest, declare_oldest, follow_script
from nnfuzz.bugs.scripts import run_script

SCRIPT = '''\
import sys

from onnx import parser

MODEL = """
<
   ir_version: 13,
   opset_import: ["" : 26]
>
nnfuzz (float[2] x) => (float[2] y) {
   y = Softmax (x)
}"""
model = parser.parse_model(MODEL)
print(model.graph.name, PRINTED)
sys.exit(CODE)
'''


def declared(tmp_path, printed, code="1"):
    """Whether a script is written, and its text then."""
    script = tmp_path / "repro.py"
    script.write_text(SCRIPT.replace("PRINTED", printed).replace("CODE", code))
    done = declare_oldest(script, partial(run_script, python=sys.executable))
    assert list(tmp_path.iterdir()) == [script]
    return done, script.read_text()


def test_the_model_gets_the_oldest_opset_of_its_schemas():
    found = at_oldest(SCRIPT)
    assert 'opset_import: ["" : 13]' in found and "ir_version: 7" in found
    assert at_oldest(found) == found
    assert found.endswith(SCRIPT[SCRIPT.index("model = ") :])
    for other in ("print(1)\n", SCRIPT.replace("Softmax", "Sof(tmax")):
        assert at_oldest(other) == other


def test_a_script_is_written_if_it_reproduces_in_the_same_words(tmp_path):
    done, text = declared(tmp_path, "1")
    assert done and '"" : 13' in text


def test_a_bug_that_changes_with_the_opset_keeps_its_script(tmp_path):
    for printed, code in (("model.ir_version", "1"), ("1", "int(model.ir_version > 9)")):
        done, text = declared(tmp_path, printed, code)
        assert not done and '"" : 26' in text


def test_the_report_shows_the_model_and_exit_codes_of_the_script(tmp_path):
    (tmp_path / "repro.py").write_text(at_oldest(SCRIPT) + "# Exit code 1 or SIGSEGV.\n")
    (tmp_path / "report.md").write_text("Run it. Exit code 1.\n\n## Model\n\n```\nold\n```\n")
    assert follow_script(tmp_path) and not follow_script(tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert text.startswith(
        "Run it. Exit code 1 or SIGSEGV.\n\n## Model\n\n```\n<\n   ir_version: 7"
    )
    assert text.endswith("y = Softmax (x)\n}\n```\n")
