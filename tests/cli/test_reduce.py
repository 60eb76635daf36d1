"""nnfuzz reduce: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import typer

from nnfuzz.backend.registry import BackendRegistry, RegistryError
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.cli.commands.findings import reduce
from nnfuzz.cli.errors import FINDINGS
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.compilers import examine
from nnfuzz.findings.folder import FindingError, read_finding, write_finding
from nnfuzz.records.finding import Finding
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.producer import Producer
from tests.reduction.conftest import CONFIG, PLUGIN, has_pattern, planted


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finding of an exception, which needs no verdict."""
    registry = BackendRegistry.discover([PLUGIN])
    spec = registry.spec("planted", {"raises": True})
    made = map(Producer(7, CONFIG).produce, range(200))
    case = next(c for c in made if isinstance(c, TestCase) and has_pattern(c))
    with BackendRunner(spec, registry) as runner:
        seen = examine(case, runner, SimpleNamespace(judge=lambda *_: Verdict({})))
    finding = Finding(planted(seen.failures), case, seen.outcomes, spec, as_json(CONFIG))
    return write_finding(tmp_path_factory.mktemp("findings") / "one", finding)


def test_it_reduces_and_says_so(folder, capsys):
    with pytest.raises(typer.Exit) as leaving:
        reduce(folder, plugin=[PLUGIN], workers=1, budget=60)
    assert leaving.value.exit_code == FINDINGS
    printed = capsys.readouterr().out
    assert "10 -> 2 nodes" in printed
    assert "accused: optimiser (FuseMulAdd)" in printed
    assert str(folder / "reduced") in printed
    assert len(read_finding(folder / "reduced").case.graph.nodes) == 2


def test_it_refuses_what_does_not_reproduce_or_is_no_finding(folder, tmp_path):
    with pytest.raises(FindingError, match="does not reproduce"):
        reduce(folder, "planted,where=never", [PLUGIN], workers=1, budget=5)
    with pytest.raises(Unreadable, match="not a finding"):
        reduce(tmp_path, workers=1, budget=5)
    with pytest.raises(RegistryError, match="no backend 'plantd'"):
        reduce(folder, "plantd", [PLUGIN], workers=1, budget=5)
