"""A script is made again from the finding that a bug's folder holds."""

from nnfuzz.bugs.bug import FILE, bug_text
from nnfuzz.bugs.refreshing import RENEWED, SAME, own_script, refreshed
from nnfuzz.findings.folder import write_finding
from nnfuzz.findings.reduced import repro_program
from tests.bugs.conftest import BUG


def test_a_damaged_script_is_made_again(finding_of, registry, tmp_path, ledger):
    found = finding_of("planted,bug=raise")
    folder = write_finding(tmp_path / "bug", found, repro_program(found, registry))
    (folder / FILE).write_text(bug_text(BUG))
    before = (folder / "repro.py").read_text()
    assert refreshed(folder, registry, str) == SAME
    (folder / "repro.py").write_text("damaged")
    assert refreshed(folder, registry, str) == RENEWED
    assert (folder / "repro.py").read_text() == before
    assert "name it with --plugin" in refreshed(folder, registry)
    assert refreshed(ledger.place("numpy/pow"), registry) == "has no model"


def test_the_script_of_a_stranger_is_replaced(finding_of, registry, tmp_path, ledger):
    found = finding_of("planted,bug=raise")
    folder = write_finding(tmp_path / "bug", found, repro_program(found, registry))
    (folder / "repro.py").write_text("do harm")
    assert own_script(folder, registry, str) == ""
    assert "do harm" not in (folder / "repro.py").read_text()
    assert "name it with --plugin" in own_script(folder, registry, lambda plugin: "")
    assert not (folder / "repro.py").exists()
