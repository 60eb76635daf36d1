"""A finding is bisected over releases, and its folder says with which one it came or went."""

from __future__ import annotations

import shutil

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import releases_of
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.writing import as_json
from nnfuzz.experiment.compilers import examine
from nnfuzz.findings.folder import read_finding, write_finding
from nnfuzz.records.finding import Finding
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.client import ProducerClient
from nnfuzz.testcase.identity import Numbered
from tests.backend.releases import ADAPTER, use_index
from tests.command import exit_code as command

CONFIG = as_json(CaseConfig(nodes=2, exporter="direct", opset=18, operators=("Add", "Neg")))


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def finding(tmp_path_factory, patch, release_index):
    """Of release 1.0, which is wrong everywhere; 2.0 is right, 3.0 cannot be installed."""
    place = tmp_path_factory.mktemp("releases")
    use_index(patch, release_index, release_index.parent / "cache")
    registry = BackendRegistry.discover([ADAPTER])
    spec = registry.parse("toyrel@1.0")
    with ProducerClient(5, CONFIG) as producer, BackendRunner(spec, registry) as runner:
        made = (producer.produce(Numbered(5, index)) for index in range(20))
        case = next(case for case in made if isinstance(case, TestCase))
        seen = examine(case, runner, producer)
    found = Finding(seen.failures[0], case, seen.outcomes, spec, CONFIG, seen.verdict)
    return write_finding(place / "finding", found)


def test_releases_are_listed_without_prereleases(finding, patch):
    toy = BackendRegistry.discover([ADAPTER]).get("toyrel")
    assert releases_of(toy) == ["1.0", "2.0", "3.0"]


def test_the_release_that_fixed_it_is_named(finding, capsys):
    assert command("bisect", finding, "--to", "3.0", "--plugin", ADAPTER) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].startswith("1.0: fails") and shown[2].startswith("3.0: cannot be installed")
    assert shown[3:] == ["2.0: right", "toyrel 2.0 is right; it fails up to 1.0"]
    (told,) = read_finding(finding).origin.bisection
    assert told.release == "2.0"
    report = (finding / "report.md").read_text()
    assert report.count("## Releases") == 1
    assert "toyrel 2.0 is right; it fails up to 1.0." in report
    assert report.index("## Releases") < report.index("## How to reproduce")


def test_a_second_result_takes_the_place_of_the_first(finding, capsys):
    assert command("bisect", finding, "--plugin", ADAPTER) == 1
    told = "toyrel fails in 1.0 already, the oldest that was asked"
    assert capsys.readouterr().out.endswith(f"{told}\n")
    report = (finding / "report.md").read_text()
    assert report.count("## Releases") == 1 and told in report


def test_what_does_not_fail_is_not_bisected(finding, tmp_path, capsys):
    copy = shutil.copytree(finding, tmp_path / "copy")
    file = copy / "finding.json"
    file.write_text(file.read_text().replace('"release": "1.0"', '"release": "2.0"'))
    assert command("bisect", copy, "--plugin", ADAPTER) == 0
    assert "it does not fail in 2.0 as it did: right" in capsys.readouterr().out


@pytest.mark.parametrize("given", [("--to", "9.9"), ("--from", "2.0")])
def test_releases_that_do_not_fit_are_explained(finding, given, capsys):
    assert command("bisect", finding, *given, "--plugin", ADAPTER) == 2
    assert "error: " in capsys.readouterr().err
