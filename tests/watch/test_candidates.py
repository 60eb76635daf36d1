"""Releases of the index, of a folder, and what is installed."""

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import ReleaseError
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.bugs.bug import Bug
from nnfuzz.bugs.environments import Interpreters
from nnfuzz.watch.candidates import Candidates
from nnfuzz.watch.settings import Channel, SystemSettings
from tests.backend.releases import use_index
from tests.watch.year import ADAPTER, make_year, put_release

RELEASES = ("1.0", "1.1", "2.0rc1")


@pytest.fixture
def year(tmp_path, monkeypatch):
    """Makes candidates of the year's compiler; notes go to `year.notes`."""
    make_year(tmp_path / "index", RELEASES)
    use_index(monkeypatch, tmp_path / "index", tmp_path / "cache")
    registry, notes = BackendRegistry.discover([ADAPTER]), []

    def make(**settings):
        own = SystemSettings(backend="toyyear", tests=1, **settings)
        interpreters = Interpreters(registry, notes.append)
        return Candidates(own, registry.get("toyyear"), interpreters, notes.append)

    make.notes, make.registry = notes, registry
    return make


def named(candidates):
    return [candidate.id for candidate in candidates.listed()]


def test_the_newest_release_alone_or_all_from_one_on(year):
    assert named(year()) == ["1.1"]
    assert named(year(channel=Channel.PRERELEASES)) == ["2.0rc1"]
    assert named(year(first="1.0")) == ["1.0", "1.1"]
    assert year(first="1.0").next(["1.0"]).id == "1.1"
    assert year(first="1.0").next(["1.0", "1.1"]).id == "1.1"
    assert year(first="1.0").next(["1.0"], first="1.0").id == "1.0"
    assert year(first="1.0").next(["1.0"], first="0.9").id == "1.1"


def test_an_optimiser_is_checked_on_its_releases_and_fuzzed_as_it_is_installed(year, monkeypatch):
    monkeypatch.setattr("nnfuzz.watch.candidates.package_of", lambda backend: "optimiser")
    monkeypatch.setattr("nnfuzz.watch.candidates.index_releases", lambda package, pre: ["0.8"])
    (found,) = year().listed()
    assert found.release == "0.8" and found.prepare() == ""
    assert found.fuzzed.__name__ == "installed" != found.choose.__name__


def test_without_an_index_what_is_installed_is_taken_and_said_once(year, monkeypatch):
    def unlisted(package, prereleases):
        raise ReleaseError("no network")

    monkeypatch.setattr("nnfuzz.watch.candidates.index_releases", unlisted)
    monkeypatch.setattr("nnfuzz.watch.candidates.known_release", lambda backend: "1.2+cpu")
    found = year()
    for _ in range(2):
        assert named(found) == ["1.2"]
    assert year.notes == ["no network; going on with what is installed"]
    monkeypatch.setattr("nnfuzz.watch.candidates.known_release", lambda backend: "")
    assert found.next(()) is None


def test_a_release_that_failed_is_left_alone_for_a_day(year, monkeypatch):
    found = year(first="1.0")
    found.failed["1.1"] = 0.0
    monkeypatch.setattr("time.monotonic", lambda: 3600.0)
    assert found.next(["1.0"]).id == "1.0"
    monkeypatch.setattr("time.monotonic", lambda: 25 * 3600.0)
    assert found.next(["1.0"]).id == "1.1"


@pytest.mark.slow
def test_a_wheel_of_ones_own_is_built_and_runs_whatever_its_version(year, tmp_path):
    wheels = tmp_path / "dist"
    wheels.mkdir()
    (wheels / "other-1.0-py3-none-any.whl").write_bytes(b"")
    (wheels / "nothing.whl").write_bytes(b"")
    found = year(channel=Channel.WHEELS, wheels=str(wheels), build="exit 3")
    assert found.next(()) is None
    assert year.notes[-2:][0] == "the build ended with 3, going on without it: "
    assert "not named as a wheel" in year.notes[-1]
    put_release(wheels, "1.1")
    first = found.next(())
    put_release(wheels, "1.3")
    (wheels / "toyyear-1.3-py3-none-any.whl").rename(wheels / "toyyear-1.1-py3-none-any.whl")
    second = found.next([first.id])
    assert first.release == second.release == "1.1" and first.id != second.id
    release = second.prepare()
    assert release.startswith("1.1+wheel.")
    with BackendRunner(year.registry.parse(f"toyyear@{release}"), year.registry) as runner:
        assert runner.versions()["toyyear"] == "1.3"
    place = second.choose(Bug("b", "toyyear"))
    assert place.release == "1.1" and release in place.python
