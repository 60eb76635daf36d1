"""The public names, and what a program registers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import nnfuzz
from nnfuzz.backend.contract import Backend
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.library.plugins import RegisterError, known_plugins
from tests.library import off


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_loads_nothing():
    heavy = "{'torch', 'onnx', 'z3', 'numpy', 'typer'}"
    assert run(f"import sys, nnfuzz; print({heavy} & set(sys.modules))") == "set()"


def test_naming_everything_loads_no_engine():
    heavy = "{'torch', 'z3', 'typer'}"
    assert run(f"import sys; from nnfuzz import *; print({heavy} & set(sys.modules))") == "set()"


@pytest.mark.parametrize("name", nnfuzz.__all__)
def test_every_name_is_there_and_documented(name):
    assert name in dir(nnfuzz)
    assert callable(getattr(nnfuzz, name)) and getattr(nnfuzz, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'nnfuzz' has no attribute 'Fuzzer'"):
        nnfuzz.Fuzzer  # noqa: B018


SCRIPT = '''
import numpy as np
import nnfuzz
from nnfuzz.backends.onnxruntime import OnnxRuntime as Real
from nnfuzz.operators.motif import MISSED, motif

OFFSET = 1

def wrong(array):
    return np.asarray(array + np.asarray(OFFSET, array.dtype))

@nnfuzz.register
class Mine(Real):
    """Defined where other processes cannot import it."""

    name = "mine"

    def build(self, module, level):
        program = super().build(module, level)
        return lambda inputs: {name: wrong(array) for name, array in program(inputs).items()}

@nnfuzz.register
@motif(size=2)
def twice(m, x):
    m("Relu", m("Relu", x))

if __name__ == "__main__":
    cases = nnfuzz.Generator(operators=["Relu"], dtypes=["float32"], nodes=3, motifs=3.0)
    motifs = {name.partition(MISSED)[0] for index in range(300) for name in cases[index].variations}
    motifs &= {"motif:Relu+Relu", "motif:twice"}
    with nnfuzz.Experiment(["mine/O0"]) as run:
        print(run(cases[0]).failures[0].kind, *sorted(motifs))
'''


def test_a_class_of_a_module_is_known_by_the_modules_name(registered, cases):
    assert nnfuzz.register(off.Off) is off.Off
    nnfuzz.register(off.twice_relu)
    assert known_plugins() == ["tests.library.off"]
    with nnfuzz.Experiment(["off/O3"], isolated=False) as run:
        assert [failure.backend for failure in run(cases[0]).failures] == ["off"]


@pytest.mark.slow
def test_what_a_script_defines_is_imported_by_the_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.returncode) == ("mismatch motif:Relu+Relu motif:twice\n", 0), (
        done.stderr
    )


SAVING = """
    small = next(c for c in cases if all(a.size < 9 for a in c.inputs.values()))
    print(nnfuzz.save_finding(run.findings(run(small))[0], "out"))
    print(nnfuzz.load_finding(next(Path("out").iterdir())).backend.plugins != ())
"""


@pytest.mark.slow
def test_a_finding_of_what_a_script_registers_works_in_another_process(tmp_path, monkeypatch):
    """repro.py finds the source and what it imports beside it; replay and reduce run it once
    --plugin names it, and only then, from whatever working directory.
    """
    begin, _, _ = SCRIPT.partition("        print(run(")
    begin = begin.replace("OFFSET = 1", "import mycompiler")
    begin = begin.replace("(OFFSET", "(mycompiler.OFFSET")
    script, compiler = tmp_path / "script.py", tmp_path / "mycompiler.py"
    compiler.write_text("OFFSET = 1\n")
    script.write_text(
        "from pathlib import Path\n" + begin + textwrap.indent(textwrap.dedent(SAVING), "        ")
    )

    def running(*command, cwd=Path("/")):
        return subprocess.run(
            [sys.executable, *command], cwd=cwd, capture_output=True, text=True, timeout=200
        )

    saved = running(script, cwd=tmp_path)
    assert saved.returncode == 0, saved.stderr
    place, known = saved.stdout.split()
    assert known == "True"
    script.unlink()
    compiler.unlink()
    folder = tmp_path / "elsewhere"
    (tmp_path / place).rename(folder)
    assert "class Mine" in (folder / "script.py").read_text()
    shown = running(folder / "repro.py")
    assert shown.returncode == 1 and "actual" in shown.stdout, shown.stdout + shown.stderr
    needs = " ".join(
        (folder / "repro.py").read_text().partition("\n\n")[2].split("\n\n")[0].split()
    )
    assert needs.startswith("Needs ") and "numpy, nnfuzz; beside it script.py" in needs
    assert (folder / "mycompiler.py").is_file()
    refused = running("-m", "nnfuzz", "replay", folder)
    advice = f"--plugin {folder / 'script.py'}"
    assert refused.returncode == 2 and f"add {advice} " in refused.stderr
    again = running("-m", "nnfuzz", "replay", folder, *advice.split())
    assert again.returncode == 1 and "reproduced" in again.stdout, again.stdout + again.stderr
    small = running(
        "-m", "nnfuzz", "reduce", folder, *advice.split(), "--budget", "3", "--workers", "1"
    )
    assert small.returncode == 1, small.stdout + small.stderr
    assert (folder / "reduced" / "mycompiler.py").is_file()


def test_a_program_that_nobody_can_import_says_what_to_do(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.partition("if __name__")[0])
    for program in (["-c", SCRIPT], [script]):
        done = subprocess.run([sys.executable, *program], capture_output=True, text=True)
        assert "put it into a file of its own" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("item", [int, "off", object()])
def test_anything_else_is_refused(registered, item):
    with pytest.raises(RegisterError, match="neither a backend class"):
        nnfuzz.register(item)
    assert not registered


def test_a_backend_that_lacks_something_is_told_what(registered):
    class Bare(Backend):
        levels = ("O0",)

    with pytest.raises(RegisterError, match=r"Bare \(in .*\) lacks name, build\(\)"):
        nnfuzz.register(Bare)
    assert not registered


def test_a_plug_in_is_a_file_or_a_module():
    file = str(Path(off.__file__))
    for plugin, kept in ((file, file), ("tests.library.off", "tests.library.off")):
        registry = BackendRegistry.discover([plugin, plugin])
        assert "off" in registry.names()
        assert registry.spec("off").plugins == (kept,)
