"""How many generated models have what entries need."""

from nnfuzz.testcase.case import CaseConfig
from scripts.recall.containment import INGREDIENTS
from scripts.recall.entries import entries
from scripts.recall.ingredients import counted


def test_each_step_has_at_most_as_many_models_as_the_one_before():
    group = entries(["tvm/relu-nan", "onnxruntime/div-by-zero"])
    config = CaseConfig(exporter="direct", nodes=4, operators=("Relu", "Div", "Add"))
    found = counted(group, config, 1, 20)
    assert list(found) == [entry.name for entry in group]
    for counts in found.values():
        assert len(counts.steps) == len(INGREDIENTS) + 1 and counts.steps[0] > 0
        assert counts.steps == sorted(counts.steps, reverse=True)
        assert all(count >= counts.steps[-1] for count in counts.without)
        assert len(counts.line.split("  but for ")[0].split()) == len(counts.steps)
