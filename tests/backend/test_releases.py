"""Releases run in environments of their own, which are made once, whole, and without a race."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from nnfuzz.backend import releases as environment
from nnfuzz.backend.contract import Backend
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.releases import ReleaseError, environments, home_of, requirements
from nnfuzz.backend.runner import BackendRunner, RunnerError, usable
from nnfuzz.backend.target import MODULE
from nnfuzz.library.experiment import Experiment
from nnfuzz.triage.survey import first_taken
from tests.backend.releases import ADAPTER, use_index


@pytest.fixture
def cache(release_index):
    return release_index.parent / "cache"


@pytest.fixture
def registry(monkeypatch, release_index, cache):
    use_index(monkeypatch, release_index, cache)
    return BackendRegistry.discover([ADAPTER])


def test_each_release_runs_in_an_environment_of_its_own(registry):
    assert importlib.util.find_spec("toyrel") is None
    for release, opset in (("1.0", 18), ("2.0", 20)):
        with BackendRunner(registry.parse(f"toyrel@{release}"), registry) as runner:
            told = {"numpy": np.__version__, "onnx": "99.0"}  # as metadata there say
            assert runner.versions() == {"toyrel": release, **told}
            assert runner.release == release
            assert first_taken(runner, (20, 19, 18)) == opset
    assert [(e.distribution, e.release) for e in environments()] == [
        ("toyrel", "1.0"),
        ("toyrel", "2.0"),
    ]


def test_what_is_there_needs_no_installer(registry, monkeypatch):
    home_of(registry.get("toyrel"), "2.0")
    monkeypatch.setattr(environment, "_installers", lambda draft, packages: pytest.fail("asked"))
    assert home_of(registry.get("toyrel"), "2.0").python.exists()


def test_what_is_installed_here_needs_no_environment():
    class Here(Backend):
        name, levels, distribution = "here", ("O0",), "numpy"

    assert home_of(Here, "") is None
    assert home_of(Here, np.__version__) is None


def test_without_a_release_the_compiler_has_to_be_installed(registry):
    with pytest.raises(RunnerError, match="toyrel is not installed"):
        BackendRunner(registry.parse("toyrel"), registry)


def test_what_reads_pytorch_has_no_environment():
    class Reader(Backend):
        name, levels, distribution, reads = "reader", ("O0",), "numpy", MODULE

        def versions(self): ...
        def load(self, model): ...
        def build(self, module, level): ...

    with pytest.raises(RunnerError, match=r"reader@1\.0 reads PyTorch"):
        usable(Reader, BackendSpec("reader", release="1.0"))


def test_requirements_of_old_releases_are_added(registry):
    toy = registry.get("toyrel")
    assert requirements(toy, "1.0") == ("toyrel==1.0", *environment.WORKER, "numpy>=2")
    assert requirements(toy, "1.10") == requirements(toy, "1.10")[:4]
    with pytest.raises(ReleaseError, match="is no release"):
        requirements(toy, "1.x.y")


@pytest.mark.parametrize(
    ("release", "complaint"),
    [("7.0", r"toyrel 7.0 cannot be installed.*index"), ("3.0", "ZeroDivisionError")],
)
def test_what_cannot_be_made_says_why_and_leaves_nothing(registry, cache, release, complaint):
    told = []
    with pytest.raises(ReleaseError, match=complaint):
        home_of(registry.get("toyrel"), release, told.append)
    assert "making an environment" in told[0]
    assert not [place for place in cache.rglob("toyrel/*") if place.name.startswith(f"{release}-")]


def test_an_environment_whose_python_is_gone_is_made_again(registry):
    home = home_of(registry.get("toyrel"), "2.0")
    home.python.unlink()
    again = home_of(registry.get("toyrel"), "2.0")
    assert again == home and again.python.exists()


def test_uv_makes_environments_too(monkeypatch, release_index, tmp_path):
    if shutil.which("uv") is None:
        pytest.skip("uv is not here")
    use_index(monkeypatch, release_index, tmp_path)
    registry = BackendRegistry.discover([ADAPTER])
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    home = home_of(registry.get("toyrel"), "2.0")
    assert "uv = " in (home.python.parents[1] / "pyvenv.cfg").read_text()


def test_pip_is_found_where_distutils_has_been_imported():
    """setuptools' hook would complain, and a warning of a user's is an error here and there."""
    code = (
        "import sys, types; sys.modules['distutils'] = types.ModuleType('distutils')\n"
        "from nnfuzz.backend.releases import _pip\n"
        "print(_pip()[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("['-m', 'pip']\n", "")


def test_two_that_want_one_at_once_make_it_once(registry, monkeypatch, tmp_path):
    made, told = [], []

    def installers(draft, packages):
        made.append(draft)
        python = Path(draft) / "bin" / "python"
        yield [["mkdir", "-p", str(python.parent)], ["sleep", "0.3"], ["touch", str(python)]]

    monkeypatch.setattr(environment, "folder", lambda: tmp_path)
    monkeypatch.setattr(environment, "_installers", installers)
    monkeypatch.setattr(environment, "_imports", lambda draft, backend: ["true"])
    wants = (registry.get("toyrel"), "1.0", told.append)
    threads = [threading.Thread(target=home_of, args=wants) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(environments()) == 1
    assert sum("waiting for it" in line for line in told) <= 1


def test_an_experiment_accuses_the_release(registry):
    from nnfuzz.library.generator import Generator

    case = next(iter(Generator(operators=["Add", "Abs"], nodes=2, dtypes=["float32"], opset=18)))
    targets = ["toyrel@1.0", "toyrel@2.0"]
    with Experiment(targets, [ADAPTER], repeats=1) as run:
        result = run(case)
    (failure,) = result.failures
    assert failure.backend == "toyrel@1.0"
    assert result.blame(failure).accused == "release 1.0"
    assert result.blame(failure).right.release == "2.0"
