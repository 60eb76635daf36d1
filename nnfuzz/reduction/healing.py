"""What a wrong result of a single operator cannot do without: attributes, operands, constants.

Each is taken away by itself, and the compiler runs again. Operators that heal by the same may have
one cause; one operator that heals by different ones has several.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.reduction.candidate import CandidateQuestion, Tried
from nnfuzz.reduction.edit import Edit, Group
from nnfuzz.reduction.trials import Trials
from nnfuzz.triage.keys import Claim, Hypothesis
from nnfuzz.triage.pattern import first_copy, shared_attribute
from nnfuzz.triage.signature import Failure
from nnfuzz.triage.title import needed_attributes

CONSTANT, OPERANDS = "constant", "operands"
MOST = 6
"""Things that are taken away; each costs a run of the compiler."""


def healing(
    trials: Trials, question: CandidateQuestion, best: Tried, failure: Failure
) -> tuple[str, ...]:
    """What makes a reduced case of a single operator right when it is gone: names of attributes of
    ONNX, CONSTANT where constant operands become inputs, OPERANDS where the last of more than two
    is left out.
    """
    if best.case is None or failure.kind is OutcomeKind.TIMEOUT:
        return ()
    tries = _tries(best)
    runs = {what: trials.run(best.case, edits, question) for what, edits in tries.items()}
    return tuple(what for what, tried in runs.items() if _right(tried, failure))


def _tries(best: Tried) -> Mapping[str, Group]:
    assert best.case is not None
    graph = best.case.graph
    nodes = first_copy(graph)
    if len(nodes) != 1:
        return {}
    (node,), tries = nodes, dict[str, Group]()
    if graph.weights:
        tries[CONSTANT] = tuple(Edit("unfreezing", name) for name in graph.weights)
    if len(node.inputs) > 2:
        tries[OPERANDS] = (Edit("operands", node.outputs[0], len(node.inputs) - 1),)
    for name in needed_attributes(best.case.model)[: MOST - len(tries)]:
        tries[name] = (Edit("importing", value=name),)
    return tries


def _right(tried: Tried, failure: Failure) -> bool:
    """Whether a case is right at the levels of a failure."""
    ran = {outcome.level for outcome in tried.outcomes if outcome.ok}
    return tried.case is not None and not tried.failing and ran.issuperset(failure.levels)


def narrowest_cause(heals: Sequence[str], known: Iterable[Sequence[str]]) -> Sequence[str]:
    """The one of several healing things that alone heals a known cause; all of them if there is no
    such one, or more. A compiler that ignores dilations may be right with other strides as well.
    """
    alone = {what for others in known if len(others) == 1 for what in others}
    common = alone.intersection(heals)
    return list(common) if len(heals) > 1 and len(common) == 1 else heals


def shared_key(
    heals: Collection[str], operator: str, operands: Hypothesis | None
) -> Hypothesis | None:
    """The claim that operators share which all become right when one and the same thing is removed;
    None if there is none. operands: the claim for a family of operators of many operands.
    """
    if len(heals) != 1:
        return None
    (what,) = heals
    if what == CONSTANT:
        return Hypothesis(Claim.ALL_CONSTANTS)
    if what == OPERANDS:
        return operands
    attribute = shared_attribute(operator, what)
    return Hypothesis(Claim.IGNORES, detail=attribute) if attribute else None


def healed(heals: Collection[str], operator: str) -> Hypothesis | None:
    """What heals an operator, as a claim; None if nothing does."""
    if CONSTANT in heals:
        return Hypothesis(Claim.NO_CONSTANT, operator)
    if OPERANDS in heals:
        return Hypothesis(Claim.FEWER_OPERANDS, operator)
    return Hypothesis(Claim.WITHOUT, operator, " or ".join(heals)) if heals else None
