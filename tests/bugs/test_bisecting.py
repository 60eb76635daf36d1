"""With which release a bug came or went, by its script."""

from dataclasses import replace

import pytest

from nnfuzz.backend.releases import ReleaseError
from nnfuzz.bugs.bisecting import ScriptBisection, with_origin
from nnfuzz.bugs.bug import ScriptResult
from nnfuzz.bugs.environments import Interpreter
from nnfuzz.bugs.scripts import ScriptRun
from tests.bugs.conftest import BUG, TODAY

LISTED = ["0.8", "0.9", "1.0", "1.1", "1.2", "2.0"]


def bisection(first_bad, listed=LISTED):
    """Bisects a compiler that is wrong from one release on; 1.1 cannot be installed."""

    def place_of(release):
        def choose(bug):
            if release == "1.1":
                raise ReleaseError("no wheel")
            return Interpreter(release, release)

        return choose

    def run(script, python, same_release):
        wrong = float(python) >= first_bad
        return ScriptRun(ScriptResult.REPRODUCES if wrong else ScriptResult.RIGHT, "")

    return ScriptBisection(lambda bug: listed, place_of, print, run)


def test_the_origin_is_the_first_bad_release_among_those_in_front(ledger):
    bug = replace(BUG, first_bad_release="2.0")
    found = bisection(1.2).origin("numpy/pow", bug, ledger.script("numpy/pow"), 4)
    assert (found.release, "0.8" in {s.release for s in found.steps}) == ("1.2", False)
    now = with_origin(bug, found, TODAY)
    assert now.first_bad_release == "1.2" and now.releases["1.0"] is ScriptResult.RIGHT
    assert now.notes == (f"{TODAY} {found.result}",) and "fails since 1.2" in found.result
    assert with_origin(now, found, TODAY) == now


@pytest.mark.parametrize("listed", [[], ["1.0"], ["2.0"]])
def test_without_an_earlier_release_there_is_no_origin(ledger, listed):
    bug = replace(BUG, first_bad_release="1.0")
    found = bisection(0.1, listed).origin("numpy/pow", bug, ledger.script("numpy/pow"), 4)
    assert found is None and with_origin(bug, found, TODAY) == bug
