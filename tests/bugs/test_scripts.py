"""What the end of a script says of its bug, with scripts that end in every way."""

import pytest

from nnfuzz.bugs.bug import ScriptResult
from nnfuzz.bugs.scripts import run_script

OBSERVED = "It should run. Seen at O0, stage import: E: axis 3 of 2 is out of range\\n"
ENDS = {
    "reproduces": "print('O3: wrong'); raise SystemExit(1)",
    "dies": "import os, signal; os.kill(os.getpid(), signal.SIGABRT)",
    "right": "print('O3: right')",
    "says": f"print('{OBSERVED}O0: E: axis 1 of 2 is out of range'); raise SystemExit(1)",
    "rephrases": f"print('{OBSERVED}O0: E: axis 1 is out of range'); raise SystemExit(125)",
    "refuses": f"print('{OBSERVED}O0: E: opset 26 is not known'); raise SystemExit(1)",
    "is another": f"print('{OBSERVED}O0: FileNotFoundError: no x.so'); raise SystemExit(125)",
    "fails": "raise ValueError('no such attribute')",
    "lacks": "import no_such_compiler",
    "hangs": "import time; time.sleep(60)",
    "cannot": "print('O0: cannot run: ImportError: x'); raise SystemExit(125)",
    "raises": "print('O0: cannot run: Fail: opset 26'); raise SystemExit(125)",
}
RESULTS = {
    "reproduces": "reproduces",
    "dies": "reproduces",
    "right": "right",
    "says": "reproduces",
    "rephrases": "reproduces",
    "refuses": "fails otherwise",
    "is another": "fails otherwise",
    "fails": "fails otherwise",
    "lacks": "cannot run here",
    "hangs": "fails otherwise",
    "cannot": "cannot run here",
    "raises": "fails otherwise",
}


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_a_script_says_what_became_of_the_bug(name, tmp_path):
    script = tmp_path / "repro.py"
    script.write_text(ENDS[name])
    run = run_script(script, seconds=3)
    assert run.result == RESULTS[name], run.message


def test_other_words_count_in_the_release_of_the_bug(tmp_path):
    script = tmp_path / "repro.py"
    script.write_text(ENDS["refuses"])
    assert run_script(script, same_release=True).result is ScriptResult.REPRODUCES
