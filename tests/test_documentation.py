"""The examples that contributors copy work as they stand."""

from __future__ import annotations

import inspect
import re
import shutil
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path

import pytest
import torch

import nnfuzz
from nnfuzz.backend.conformance import check_backend
from nnfuzz.backend.registry import import_plugin
from nnfuzz.check.operators import check_operators
from nnfuzz.compare.envelope import admitted
from nnfuzz.ir.dtypes import FLOAT8S, INT4S, DType
from nnfuzz.operators.motif import Motif
from nnfuzz.operators.registry import OpRegistry

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def example(tmp_path):
    """The file that a reader makes of the only block with a mark."""

    def made(mark):
        (block,) = [block for block in BLOCKS if mark in block]
        file = tmp_path / "mine.py"
        file.write_text(block)
        return file

    return made


def test_the_operator_conforms(example):
    registry = OpRegistry()
    registry.add_module(import_plugin(example("class Atan(")))
    assert list(registry) == ["Atan"]
    (report,) = check_operators(registry.specs(), seed=0, instances=3)
    assert report.ok, report.problems
    assert report.forward and report.backward


def test_the_operator_that_is_made_of_others_needs_no_rounding(example):
    registry = OpRegistry.load([import_plugin(example("class Gudermannian("))])
    (report,) = check_operators([registry.get("Gudermannian")], seed=0, instances=3)
    assert report.ok, report.problems
    x = torch.tensor([0.5], dtype=torch.float64)
    (interval,) = admitted(registry.get("Gudermannian")(), [x], [DType.FLOAT32], u=2.0**-24)
    width = float(interval.hi - interval.lo)
    assert 2.0**-24 < width < 1e-5


def test_the_motif_is_found(example):
    module = import_plugin(example("@motif"))
    found = [made for made in vars(module).values() if isinstance(made, Motif)]
    assert [(made.name, made.size) for made in found] == [("gelu", 5)]


def test_the_backend_keeps_the_contract(example):
    fates = check_backend("onnxref", plugins=[example("class OnnxReference")])
    assert fates["add"] == "ok"


def test_the_model_optimiser_keeps_the_contract(example):
    fates = check_backend("inferred", plugins=[example("class Inferred")])
    assert fates["add"] == "ok"


@pytest.mark.skipif(not (find_spec("tinygrad") and shutil.which("clang")), reason="no tinygrad")
def test_the_plugin_for_tinygrad_keeps_the_contract():
    fates = check_backend("tinygrad", plugins=[ROOT / "examples" / "tinygrad_backend.py"])
    lacking = {name: fate for name, fate in fates.items() if fate != "ok"}
    assert all("unsupported at import" in fate for fate in lacking.values()), lacking
    assert lacking.keys() <= {dtype.value for dtype in (*INT4S, *FLOAT8S)}


TOUR = [ROOT / "docs" / "HOW_IT_WORKS.md", *sorted((ROOT / "docs" / "rooms").glob("*.md"))]


@pytest.mark.parametrize("page", TOUR, ids=lambda page: page.stem)
def test_the_tour_names_files_that_there_are(page):
    places = [ROOT / room for room in ("nnfuzz", "opspecs", "backends", "scripts", "tests")]
    names = {path.name for place in places for path in place.rglob("*.py")}
    for named in re.findall(r"`([\w/]+\.py)`", page.read_text()):
        assert (ROOT / named).exists() or named in names, f"{page.name} names {named}"


def test_the_tour_is_short():
    assert len(TOUR[0].read_text().split()) <= 2000


def _signature(name: str) -> str:
    """As docs/API.md has it: without types, `self`, and the text of functions."""
    found = attrgetter(name)(nnfuzz)
    signature = inspect.signature(found)
    parameters = [
        p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"
    ]
    plain = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return re.sub(r"<function .*? at \w+>", "...", f"{name}{plain}")


def test_the_main_signatures_of_the_library_are_those_of_the_code():
    page = (ROOT / "docs" / "API.md").read_text()
    (block,) = re.findall(r"The main signatures:\n\n```text\n(.*?)```", page, re.DOTALL)
    lines = re.sub(r"\n +", " ", block).splitlines()
    assert lines == [_signature(line.partition("(")[0]) for line in lines]
    named = {line.partition("(")[0].partition(".")[0] for line in lines}
    assert named >= {"Generator", "check_model", "Experiment", "Oracle", "reduce", "register"}
