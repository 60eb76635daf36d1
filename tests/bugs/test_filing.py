"""A second filing is refused, other findings are not, and a flood is held back."""

from dataclasses import replace

from nnfuzz.bugs.bug import BugState
from nnfuzz.bugs.filing import refusal, system_of
from nnfuzz.bugs.ledger import bugs_of, recognised_by
from nnfuzz.findings.folder import write_finding
from tests.bugs.conftest import BUG

FILED = replace(BUG, state=BugState.FILED, upstream="https://example.org/7")


def test_what_is_filed_is_refused():
    assert refusal({"a": FILED}, ["a"], "numpy", 0) == "a is filed already https://example.org/7"
    assert not refusal({"a": FILED}, [], "numpy", 0)
    assert not refusal({"a": BUG}, ["a"], "numpy", 0)
    wontfix = replace(BUG, state=BugState.WONTFIX)
    assert refusal({"a": BUG, "b": wontfix}, ["a", "b"], "numpy", 0) == "b is wontfix already"


def test_a_flood_is_held_back():
    bugs = {str(i): FILED for i in range(3)}
    assert "3 issues of numpy are open, and --max-open is 3" in refusal(bugs, [], "numpy", 3)
    assert not refusal(bugs, [], "numpy", 4) and not refusal(bugs, [], "tvm", 3)


def test_a_finding_has_its_bugs(finding_of, registry, tmp_path):
    found = finding_of("planted,bug=value")
    folder = write_finding(tmp_path / "found", found)
    own = replace(BUG, system=system_of(found), signatures=(found.signature.hash,))
    bugs = {"own": own, "other": replace(BUG, system="planted")}
    signatures, keys = recognised_by([folder], registry)
    assert bugs_of(bugs, signatures, keys, "planted") == ["own"]
