from nnfuzz.backend.outcome import Brief
from nnfuzz.experiment.judge import BLIND
from nnfuzz.records.rows import TestRow
from nnfuzz.store.statistics import refusals


def row(index, kind, **levels):
    return TestRow(index, "run", 0, {"toy": levels}, variations=(f"fault:{kind}",))


def test_the_worst_answer_of_a_test_counts():
    late = Brief("refused", "execute")
    clean = Brief("refused", "import")
    found = refusals(
        [
            row(0, "cycle", O0=clean, O3=clean),
            row(1, "cycle", O0=clean, O3=Brief("crash", "compile")),
            row(2, "wrong-axis", O0=late, O3=clean),
            row(3, "wrong-axis", O0=clean, O3=Brief("accepted", "execute")),
            row(4, "wrong-axis", O0=Brief("exception", "import")),
            TestRow(5, "run", 0, {"toy": {"O0": Brief("ok")}}, variations=("motif:Gelu",)),
            row(6, "empty-file", O0=Brief("unsupported", message=BLIND), O3=clean),
            row(7, "no-graph", O0=Brief("unsupported", message=BLIND)),
        ]
    )
    assert found == {
        "cycle": {"toy": {"refused": 1, "crash": 1}},
        "wrong-axis": {"toy": {"late": 1, "accepted": 1, "internal": 1}},
        "empty-file": {"toy": {"refused": 1}},
        "no-graph": {"toy": {"nothing": 1}},
    }
