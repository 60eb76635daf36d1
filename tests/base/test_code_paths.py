"""What is nnfuzz's own is decided by where it lies: no name in a path changes a key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.backend.complaint import described
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.registry import import_plugin
from nnfuzz.backend.target import Target
from nnfuzz.base.code_paths import LIBRARY, CodePaths
from nnfuzz.ir.view import NO_GRAPH
from nnfuzz.triage.frames import innermost_line, python_frames
from nnfuzz.triage.keys import error_keys
from nnfuzz.triage.signature import failures

FOLDERS = st.lists(
    st.sampled_from(["nnfuzz", "backends", "site-packages", "tmp", "a b", "größe", "lib", "x.y"]),
    min_size=1,
    max_size=4,
).map(lambda parts: "/" + "/".join(parts))
TRACEBACK = """Traceback (most recent call last):
  File "{checkout}/nnfuzz/backend/service.py", line 112, in _timed
    return step()
  File "{plugin}/mine.py", line 8, in build
    codegen.build(module)
  File "<frozen importlib._bootstrap>", line 3, in load
  File "{home}/nnfuzz/backends/codegen.py", line 44, in build
    with scope():
  File "{python}/contextlib.py", line 137, in __enter__
    return next(self.gen)
  File "{environment}/toy/lower.py", line 9, in lower
    raise LowerError(path)
toy.LowerError: {environment}/toy/rules.td: no rule of {home}/c/a.bin:3 for {campaign}/model.onnx
"""
DYING = """Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "{environment}/toy/run.py", line 3 in run
  File "{plugin}/mine.py", line 9 in <lambda>
  File "{checkout}/nnfuzz/backend/service.py", line 112 in _timed
"""
NAMES = ("checkout", "plugin", "home", "environment", "campaign")
PLAIN = {name: f"/plain-{name}" for name in (*NAMES, "python")}


def read(folders):
    """The failures of an exception and of a death that name files in these folders, with keys."""
    short = {folders["environment"]: "", folders["python"]: LIBRARY, folders["home"]: "~/"}
    short |= {folders["campaign"]: "/tmp/"}
    own, plugin = f"{folders['checkout']}/nnfuzz", f"{folders['plugin']}/mine.py"
    paths = CodePaths((own,), (plugin,), short)
    text, dying = (paths.foreign(t.format(**folders)) for t in (TRACEBACK, DYING))
    message = text.splitlines()[-1].partition(": ")[2]
    raised = Outcome(
        OutcomeKind.EXCEPTION, Stage.COMPILE, Target("toy"), "toy.LowerError", message, text
    )
    died = Outcome(
        OutcomeKind.CRASH, Stage.EXECUTE, Target("toy"), signal="SIGSEGV", captured=dying
    )
    for outcome in (raised, died):
        (failure,) = failures([outcome])
        yield failure, error_keys(failure, {}, NO_GRAPH, innermost_line(outcome.traceback))


@given(FOLDERS, FOLDERS, FOLDERS, FOLDERS, FOLDERS)
def test_keys_do_not_depend_on_any_folder(checkout, plugin, home, environment, campaign):
    folders = (checkout, plugin, home, environment, campaign)
    apart = {name: f"/{name[0]}{folder}" for name, folder in zip(NAMES, folders)}
    assert list(read({**PLAIN, **apart})) == list(read(PLAIN))


def test_the_frames_that_stay_are_the_compilers():
    failure, _ = next(read(PLAIN))
    assert failure.signature.parts["frames"] == ["codegen.py:build", "lower.py:lower"]


def test_a_worker_knows_where_its_plug_in_is_and_what_is_the_compilers(tmp_path):
    for folder in ("one", "a nnfuzz/backends/site-packages"):
        place = tmp_path / folder
        place.mkdir(parents=True)
        name = f"toy_codegen_{len(folder)}"
        (place / f"{name}.py").write_text("def build():\n    raise ValueError(__file__)\n")
        file = place / "mine.py"
        file.write_text(f"import {name}\n\n\ndef build():\n    {name}.build()\n")
        with pytest.raises(ValueError) as raised:
            import_plugin(file).build()
        text = described(raised.value, Stage.COMPILE, (__file__,))
        assert python_frames(text.traceback) == [f"{name}.py:build"]
        assert text.message == f"{name}.py"
