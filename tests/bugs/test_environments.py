"""Scripts run where a release, a wheel or an interpreter has the compiler."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import ReleaseError
from nnfuzz.bugs.environments import Interpreter, Interpreters
from nnfuzz.bugs.scripts import run_script
from tests.backend.releases import ADAPTER, make_index, use_index
from tests.bugs.conftest import BUG

TOY = replace(BUG, system="toyrel")
SCRIPT = "import toyrel, sys\nprint(toyrel.RELEASE)\nsys.exit(toyrel.WRONG != 0)\n"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    place = tmp_path_factory.mktemp("releases")
    make_index(place / "wheels")
    with pytest.MonkeyPatch.context() as patch:
        use_index(patch, place / "wheels", place)
        yield place / "wheels"


@pytest.fixture
def interpreters(wheels):
    return Interpreters(BackendRegistry.discover([ADAPTER]), lambda line: None)


def test_what_is_installed_has_its_release(interpreters):
    assert interpreters.installed(BUG) == Interpreter(sys.executable, np.__version__)
    assert interpreters.installed(replace(BUG, system="no-such-compiler")).release == ""
    assert interpreters.installed(replace(TOY, package="numpy")).release == np.__version__
    assert interpreters.of_release(np.__version__)(BUG) == Interpreter(
        sys.executable, np.__version__
    )
    assert interpreters.of_python(sys.executable)(BUG).release == np.__version__
    with pytest.raises(ReleaseError, match="cannot be run"):
        interpreters.of_python("/no/python")(BUG)


def test_a_release_and_a_wheel_run_in_environments(interpreters, wheels, tmp_path):
    script = tmp_path / "repro.py"
    script.write_text(SCRIPT)
    chosen = {
        "1.0": interpreters.of_release("1.0"),
        "2.0": interpreters.of_wheel(next(wheels.glob("toyrel-2.0-*.whl"))),
    }
    for release, choose in chosen.items():
        place = choose(TOY)
        assert place.release == release
        run = run_script(script, place.python)
        assert (run.message, run.result) == (
            release,
            "reproduces" if release == "1.0" else "right",
        )


def test_a_wheel_is_of_the_bugs_package(interpreters, wheels, tmp_path):
    with pytest.raises(ReleaseError, match="is a wheel of toyrel, not of numpy"):
        interpreters.of_wheel(next(wheels.glob("toyrel-1.0-*.whl")))(BUG)
    with pytest.raises(ReleaseError, match="not named as a wheel is"):
        interpreters.of_wheel(tmp_path / "mine.zip")


def test_the_newest_release_is_taken_and_may_be_broken(interpreters):
    with pytest.raises(ReleaseError, match=r"toyrel 3\.0 cannot be installed"):
        interpreters.newest(TOY)
    assert len(interpreters.failed) == 1
