"""How often a campaign held back which bug of a ledger."""

from dataclasses import replace

from nnfuzz.bugs.bug import BugState
from nnfuzz.library.known_failures import known_occurrences
from nnfuzz.records.rows import Occurrence
from nnfuzz.store.store import Store
from nnfuzz.testcase.identity import Numbered
from tests.bugs.conftest import BUG


def test_known_failures_are_counted_by_bug(tmp_path):
    own, gone = BUG.signatures[0], "1" * 12
    with Store.create(tmp_path / "campaign", {"seed": 1}) as store:
        store.sessions.begin()
        for index, (signature, bucket) in enumerate(
            [(own, "known"), (own, "known"), (gone, "known"), ("2" * 12, "known"), (own, "finding")]
        ):
            test = Numbered(1, index)
            store.occurrences.add(Occurrence(signature, test, bucket, "toy crash compile"))
    duplicate = replace(
        BUG, signatures=(gone,), keys=(), state=BugState.DUPLICATE, duplicate_of="numpy/pow"
    )
    bugs = {"numpy/gone": duplicate, "numpy/pow": BUG}
    assert known_occurrences(tmp_path / "campaign", bugs) == {"numpy/pow": 3, "": 1}
