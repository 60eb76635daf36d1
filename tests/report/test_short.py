"""The script of an issue has few lines, and shows the failure by itself."""

import subprocess
import sys
from dataclasses import replace

from nnfuzz.materialize.opsets import DYNAMIC
from nnfuzz.report.short import MAX_LINES, short_script

PROGRAM = """\
def run(model, inputs, level):
    from onnx.reference import ReferenceEvaluator

    session = ReferenceEvaluator(model)
    return dict(zip(session.output_names, session.run(None, inputs)))
"""


def test_a_short_script_runs(finding_of, tmp_path):
    found = finding_of("planted,bug=value")
    text = short_script(found, PROGRAM)
    assert 0 < len(text.splitlines()) <= MAX_LINES and "# expected" in text
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0 and done.stdout.startswith("[["), done.stderr
    assert "# it should run" in short_script(finding_of("planted,bug=raise"), PROGRAM)


def test_what_would_be_long_or_need_files_has_none(finding_of):
    found = finding_of("planted,bug=value")
    assert not short_script(found, None)
    assert not short_script(found, PROGRAM + "    # more\n" * MAX_LINES)
    case = replace(found.case, exporter=DYNAMIC)
    assert not short_script(replace(found, case=case), PROGRAM)
