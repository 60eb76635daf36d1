"""The real experiment on a planted compiler with two devices and releases, and its small parts."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

import nnfuzz
from nnfuzz.backend.contract import OptionError
from nnfuzz.backend.registry import RegistryError
from nnfuzz.backend.target import Target, TargetError
from nnfuzz.compare.flip import Coordinate
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.identity import Probe
from nnfuzz.testcase.producer import Producer
from tests.planted import blamed

PLUGIN = blamed.__file__
TARGETS = ["blamed", "blamed/gpu/", "blamed@1.1", "blamed@1.1/gpu/"]
SOUND = Target("blamed", "1.0", "cpu", "O0", "direct")


@pytest.fixture(scope="module")
def producer():
    names = ("Floor", "Sin", "Ceil", "Erf", "LeakyRelu", "Atan", "Abs")
    return Producer(0, CaseConfig(exporter="direct", operators=names))


@pytest.fixture(scope="module")
def run():
    with nnfuzz.Experiment(TARGETS, [PLUGIN], repeats=1) as run:
        yield run


def probe(producer: Producer, operator: str) -> TestCase:
    found = producer.made(Probe(SupportKey.parse(f"direct:{operator}(float32)->float32"), 0))
    assert isinstance(found, TestCase)
    return found


@pytest.mark.parametrize(
    ("operator", "coordinate", "wrong"),
    [
        ("Floor", "pipeline", replace(SOUND, pipeline="O3")),
        ("Sin", "device", replace(SOUND, device="gpu")),
        ("Ceil", "release", replace(SOUND, release="1.1")),
        ("Erf", "compiler", SOUND),
        ("LeakyRelu", "compiler", SOUND),
    ],
)
@pytest.mark.parametrize("form", ["direct", "torchscript"])
def test_the_fault_is_blamed_on_its_coordinate(producer, run, operator, coordinate, wrong, form):
    """What an exporter wrote faithfully is no reason to blame the exporter."""
    result = run(replace(probe(producer, operator), exporter=form))
    assert result.failures and not result.flaky
    blames = [result.blame(failure) for failure in result.failures]
    assert {blame.coordinate.value for blame in blames} == {coordinate}
    assert replace(wrong, form=form) in [blame.wrong for blame in blames]
    assert set(result.repeats.values()) == {(1, 1)}


def test_an_exporter_is_blamed_for_a_model_that_means_something_else(producer, run):
    case = probe(producer, "Atan")
    model = blamed.badly_exported(case.model)
    result = run(replace(case, model=model, exporter="torchscript"))
    assert len(result.failures) == len(TARGETS)
    for failure in result.failures:
        blame = result.blame(failure)
        assert blame.coordinate is Coordinate.FORM and blame.accused == "exporter"
        assert (blame.right.form, blame.wrong.form) == ("direct", "torchscript")
    assert {o.target.compiler for o in result.extra} == {"blamed", "onnx.reference"}


def test_where_all_agree_nothing_is_judged(producer, run):
    result = run(probe(producer, "Abs"))
    assert result.agreed and result.verdict is None and not result.failures
    assert [str(o.target) for o in result.outcomes][:2] == [
        "blamed@1.0/cpu/O0:direct",
        "blamed@1.0/cpu/O3:direct",
    ]
    assert list(result.by_backend()) == [spec.label for spec in run.specs]


def test_targets_become_backends_with_options(run):
    assert [spec.options for spec in run.specs] == [
        {},
        {"device": "gpu"},
        {"release": "1.1"},
        {"device": "gpu", "release": "1.1"},
    ]


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("blamed//", TargetError),
        ("blamd", RegistryError),
        ("blamed/O7", OptionError),
        ("blamed/tpu/O0", OptionError),
        ("blamed:dynamo", OptionError),
        ("onnxruntime,provider=tpu", OptionError),
    ],
)
def test_targets_that_cannot_be_are_refused(target, error):
    with pytest.raises(error):
        nnfuzz.Experiment([target], [PLUGIN])


def test_importing_the_library_is_cheap():
    code = "import sys, nnfuzz; print('numpy' in sys.modules, 'Target' in dir(nnfuzz))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
    with pytest.raises(AttributeError, match="no attribute 'Experimnt'"):
        nnfuzz.Experimnt  # noqa: B018
