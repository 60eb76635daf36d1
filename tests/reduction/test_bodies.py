"""Bodies under reduction: fewer steps, simpler steps, and no control flow at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.reduction.edit import Edit
from nnfuzz.reduction.passes import PASSES, applied


def test_the_branch_that_is_taken_replaces_the_operator(subject):
    (edit,) = PASSES["inlining"].propose(subject)
    made = applied(subject, [edit])
    assert [n.op.name for n in made.graph.nodes] == ["Relu", "Add", "Clip", "Tanh"]
    assert made.graph.inputs == ["x"] and made.measure() < subject.measure()
    for name in subject.graph.outputs:
        np.testing.assert_array_equal(made.values[name], subject.values[name])
    other = replace(subject, params={**subject.params, "c": np.array(False)})
    assert "Neg" in [n.op.name for n in applied(other, [edit]).graph.nodes]


def test_bodies_lose_steps_and_their_operators_get_simpler(subject):
    found = [e for e in PASSES["attributes"].propose(subject) if e.value[0] == "then_branch"]
    made = [applied(subject, [read(Edit, as_json(e))]) for e in found]
    bodies = [m.graph.nodes[1].op.then_branch for m in made]
    assert {len(body.steps) for body in bodies} == {1, 2}
    assert any(s.op.attributes == {"min": 0.0, "max": 4.0} for b in bodies for s in b.steps)
    assert all(m.measure() < subject.measure() for m in made)


def test_inputs_that_an_operator_can_do_without_go(subject):
    edits = list(PASSES["operands"].propose(subject))
    assert [(e.target, e.value) for e in edits] == [("a", 2)]
    made = applied(subject, edits)
    assert made.graph.nodes[1].inputs == ("r", "c") and "y" not in made.params
    assert made.graph.nodes[1].op.then_branch.steps[0].inputs == (0, 0)
    assert made.measure() < subject.measure()
