"""The end of a script and what it says of its bug; and where scripts run."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import ReleaseError
from nnfuzz.bugs import checking as scripts
from nnfuzz.bugs.bug import ScriptResult
from nnfuzz.bugs.checking import Interpreter, Interpreters, run_script
from tests.backend.releases import ADAPTER
from tests.bugs.conftest import BUG

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


TOY = replace(BUG, system="toyrel")


@pytest.fixture
def made(monkeypatch):
    """The packages of the environments that are asked for; there is no release 3.0."""
    asked = []

    def environment_of(package, release, packages, modules, note):
        asked.append(packages)
        if release == "3.0":
            raise ReleaseError(f"{package} {release} cannot be installed")
        return SimpleNamespace(python=sys.executable)

    monkeypatch.setattr(scripts, "environment_of", environment_of)
    return asked


@pytest.fixture
def interpreters(made):
    return Interpreters(BackendRegistry.discover([ADAPTER]), lambda line: None)


def test_what_is_installed_has_its_release(interpreters):
    assert interpreters.of_python(sys.executable, BUG) == Interpreter(
        sys.executable, np.__version__
    )
    assert (
        interpreters.of_python(sys.executable, replace(BUG, system="no-such-compiler")).release
        == ""
    )
    assert (
        interpreters.of_python(sys.executable, replace(TOY, package="numpy")).release
        == np.__version__
    )
    assert interpreters.of_release(np.__version__, BUG) == Interpreter(
        sys.executable, np.__version__
    )
    assert interpreters.of_python(sys.executable, BUG).release == np.__version__
    with pytest.raises(ReleaseError, match="cannot be run"):
        interpreters.of_python("/no/python", BUG)


def test_a_release_runs_in_an_environment(interpreters, made):
    assert interpreters.of_release("1.0", TOY) == Interpreter(sys.executable, "1.0")
    assert made[0][0] == "toyrel==1.0"


def test_what_cannot_be_installed_is_tried_once(interpreters, made):
    for _ in range(2):
        with pytest.raises(ReleaseError, match=r"toyrel 3\.0 cannot be installed"):
            interpreters.of_release("3.0", TOY)
    assert len(made) == 1
