"""Sets of numbers, shards, bounds, threads and paths of code."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.backend.complaint import described
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.registry import import_plugin
from nnfuzz.backend.target import Target
from nnfuzz.base.code_paths import LIBRARY, CodePaths
from nnfuzz.base.shard import IndexSet, Shard
from nnfuzz.base.untrusted import Unusable, blaming, check_bounds, check_sense, in_order
from nnfuzz.triage.headline import python_frames, raising_line
from nnfuzz.triage.keys import error_keys
from nnfuzz.triage.signature import failures
from tests.attacks import bombs
from tests.attacks.test_bombs import MANY, one_line
from tests.command import nnfuzz

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
        yield failure, error_keys(failure, {}, (), raising_line("", "", outcome.traceback))


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


# A set of indexes holds what a set of integers holds, in few ranges.


PARTS = st.sampled_from([Shard(), Shard(1, 3), Shard(3, 3)])


@given(PARTS, st.lists(st.integers(0, 40)), st.integers(0, 10))
def test_it_is_a_set(part, numbers, length):
    wanted = {*filter(part.owns, range(length))}
    found = IndexSet(wanted, part)
    for number in numbers:
        found.add(part.index(number))
        wanted.add(part.index(number))
    own = [*filter(part.owns, range(200))]
    assert [index for index in own if index in found] == sorted(wanted)
    assert found.length == min({*own} - wanted)


# Parts of numbered things are the whole together, and share nothing.


def test_parts_are_the_whole_and_share_nothing():
    parts = [Shard(number, 3) for number in (1, 2, 3)]
    for index in range(10):
        assert sum(part.owns(index) for part in parts) == 1
    assert [part.of(10) for part in parts] == [4, 3, 3]
    assert Shard().of(10) == 10 and Shard().whole and not parts[0].whole


def test_parts_are_written_as_fractions():
    assert str(Shard.parse("2/8")) == "2/8"
    for text in ("", "3", "0/3", "4/3", "1/0", "a/b", "1/2/3", "1/" + "9" * 99):
        with pytest.raises(ValueError, match="write 2/8"):
            Shard.parse(text)


# Models that would take too much are refused before they do.


@pytest.mark.parametrize("name", ["doubling", "doubling_in_bodies", "recursion"])
def test_functions_are_counted_before_anything_walks_them(name):
    check_bounds(bombs.doubling(12))
    began = time.process_time()
    with pytest.raises(Unusable, match=r"too large|calls itself"):
        check_bounds(bombs.BOMBS[name](MANY))
    assert time.process_time() - began < 1


@pytest.mark.parametrize("name", ["circle", "conflicting"])
def test_a_model_without_sense_is_not_checked(name, tmp_path):
    with pytest.raises(Unusable, match="makes no sense"):
        check_sense(bombs.BOMBS[name](2))
        in_order(bombs.BOMBS[name](2))
    check_sense(bombs.nested(3))
    (tmp_path / "m.onnx").write_bytes(bombs.BOMBS[name](2).SerializeToString())
    done = nnfuzz("check", tmp_path / "m.onnx", "-b", "onnxruntime")
    assert "makes no sense" in one_line(done)


def test_nodes_out_of_order_are_sorted_and_others_stay():
    nodes = [bombs.node("Neg", f"v{i}", to=f"v{i + 1}") for i in range(2000)]
    model = bombs.model([bombs.node("Abs", "x", to="v0"), *nodes])
    assert in_order(model) is model
    shuffled = bombs.model(random.Random(0).sample([*model.graph.node], 2001))
    sorted_model = in_order(shuffled)
    assert [n.output[0] for n in sorted_model.graph.node] == [f"v{i}" for i in range(2001)]
    assert sorted_model.graph.node != shuffled.graph.node


def test_an_exception_is_the_fault_of_a_model_that_is_not_valid():
    valid, other = bombs.model([bombs.node("Neg", "x")]), bombs.mistyped(3)
    with pytest.raises(Unusable, match="is not valid"), blaming(other):
        raise KeyError("anything")
    with pytest.raises(KeyError, match="anything"), blaming(valid):
        raise KeyError("anything")
    with pytest.raises(ZeroDivisionError), blaming(other, known=ZeroDivisionError):
        raise ZeroDivisionError
