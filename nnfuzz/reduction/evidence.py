"""What else tells the cause of a reduced case: experiments that begin where reduction ends.

- Hypotheses on how the result comes about (explain.py), held against other inputs too.
- What computes the input of an operator that raises: if it is wrong, the error only follows.
- The dtype or operator of a known cause in place of this one's: if that fails alike, they are one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nnfuzz.execute.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.reduction.candidate import Question, Tried
from nnfuzz.reduction.edit import Edit, Group
from nnfuzz.reduction.known import Cause
from nnfuzz.reduction.slots import Slots
from nnfuzz.triage.facts import facts_of
from nnfuzz.triage.general import general_message
from nnfuzz.triage.keys import Key, KeyKind
from nnfuzz.triage.refine import first_copy, refined
from nnfuzz.triage.signature import HABITS, Failure

REDRAWS = 2
"""Further inputs that a hypothesis must predict: each leaves few coincidences."""
MOST_SWAPS = 6
"""Known causes that are put in place of one, the latest first: each costs a run of the compiler."""


@dataclass(frozen=True)
class Evidence:
    """explanations: hypotheses that predict what is wrong, the first the most general. keys: of
    causes that the case was found to share.
    """

    explanations: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()


def gather(
    slots: Slots, question: Question, best: Tried, failure: Failure, causes: Sequence[Cause]
) -> Evidence:
    """Experiments on a reduced case. causes: of the same backend and kind.

    Raises: WorkerError if a worker of nnfuzz fails.
    """
    if best.case is None or slots.slots[0].runner is None or HABITS in failure.signature.parts:
        return Evidence()
    told = _explanations(slots, question, best, failure)
    keys = {
        Key(KeyKind.CAUSE, cause.refined)
        for cause in _alike(slots, question, best, failure, told, causes)
    }
    if failure.kind is not OutcomeKind.MISMATCH:
        keys |= _before(slots, question, best)
    return Evidence(tuple(told), tuple(sorted(keys)))


def _explanations(slots: Slots, question: Question, best: Tried, failure: Failure) -> list[str]:
    """Hypotheses that predict the wrong result, and those of other inputs that fail as well."""
    if failure.kind is not OutcomeKind.MISMATCH:
        return []
    found = _consistent(slots, best, failure)
    for seed in range(1, REDRAWS + 1) if found else ():
        assert best.case is not None
        again = slots.run(best.case, (Edit("redrawing", value=seed),), question)
        for other in _wrong(again)[:1]:
            kept = set(_consistent(slots, again, other))
            found = [text for text in found if text in kept]
    return found


def _consistent(slots: Slots, tried: Tried, failure: Failure) -> list[str]:
    wrong = _outcome(tried, failure)
    if tried.case is None or wrong is None:
        return []
    return slots.explain(tried.case, wrong.outputs or {})


def _outcome(tried: Tried, failure: Failure) -> Outcome | None:
    """What the first target of a mismatch returned."""
    ran = {outcome.target: outcome for outcome in tried.outcomes}
    return next((ran[t] for t in failure.targets if t in ran and ran[t].outputs), None)


def _wrong(tried: Tried) -> list[Failure]:
    return [f for f, _ in tried.failing if f.kind is OutcomeKind.MISMATCH]


def _before(slots: Slots, question: Question, best: Tried) -> set[Key]:
    """The causes of what is wrong before the last operator of a case that raises."""
    assert best.case is not None
    nodes = first_copy(best.case.graph or {})
    read = {name for node in nodes[-1:] for name in node["inputs"]}
    feeding = [name for node in nodes[:-1] for name in node["outputs"] if name in read]
    if not feeding:
        return set()
    whole = replace(question, judged=True, until=Stage.EXECUTE, lazy=False)
    part = slots.run(best.case, (Edit("outputs", value=feeding),), whole)
    if part.case is None:
        return set()
    found = [
        refined(f, part.case.graph, facts_of(part.case, f, part.verdict)) for f in _wrong(part)
    ]
    return {Key(KeyKind.CAUSE, signature.hash) for signature in found}


def _alike(
    slots: Slots,
    question: Question,
    best: Tried,
    failure: Failure,
    told: Sequence[str],
    causes: Sequence[Cause],
) -> Iterator[Cause]:
    """Known causes whose operator or dtype fails in the same way in place of this case's."""
    assert best.case is not None
    similar = [cause for cause in reversed(causes) if _may_be_one(failure, told, cause)]
    swaps = ((cause, swap(best.case.graph or {}, cause)) for cause in similar)
    for cause, edits in [pair for pair in swaps if pair[1]][:MOST_SWAPS]:
        tried = slots.run(best.case, edits, question)
        if any(_same_words(f, failure, best, tried) for f, _ in tried.failing):
            yield cause


def swap(graph: dict[str, Any], cause: Cause) -> Group:
    """Edits that put the operator, or the dtypes, of a cause in place of those of a graph; none
    unless both are of a single operator.
    """
    mine, theirs = first_copy(graph), cause.nodes
    if len(mine) != 1 or len(theirs) != 1 or len(mine[0]["inputs"]) != len(theirs[0]["inputs"]):
        return ()
    (node,), (other,) = mine, theirs
    if node["op"] != other["op"]:
        return (Edit("operators", node["outputs"][0], other["op"]),)
    have, want = ({v[0]: v[1] for v in g["values"]} for g in (graph, cause.graph))
    pairs = [
        (have[a], want[b])
        for side in ("inputs", "outputs")
        for a, b in zip(node[side], other[side])
        if have[a] != want[b]
    ]
    return tuple(Edit("dtypes", a, b) for a, b in dict.fromkeys(pairs))


def _may_be_one(failure: Failure, told: Sequence[str], cause: Cause) -> bool:
    """Whether the two look alike so far that running one as the other is worth it, and telling.

    Two operators may both be wrong on their own: they are one only where the same is ignored or
    lost in both.
    """
    if (failure.kind.value, failure.stage.value) != (cause.kind, cause.stage):
        return False
    if failure.kind is not OutcomeKind.MISMATCH or _operator(failure) == cause.operator:
        return True
    bare = {text.partition(" ")[2] for text in told}
    return not bare.isdisjoint(text.partition(" ")[2] for text in cause.explanations)


def _operator(failure: Failure) -> str:
    return next(iter(failure.signature.parts.get("operators", ())), "")


def _same_words(found: Failure, wanted: Failure, one: Tried, other: Tried) -> bool:
    """Whether two failures are of one kind and say the same, dtypes and operators aside."""
    if (found.kind, found.stage) != (wanted.kind, wanted.stage):
        return False
    a, b = (_general(f, tried) for f, tried in ((found, other), (wanted, one)))
    return a == b


def _general(failure: Failure, tried: Tried) -> tuple[str, str]:
    parts, graph = failure.signature.parts, (tried.case.graph if tried.case else None) or {}
    dtypes = {value[1] for value in graph.get("values", ())}
    operators = {node["op"] for node in graph.get("nodes", ())}
    said = general_message(parts.get("message", ""), dtypes, operators)
    return said, str(parts.get("wrong", parts.get("error", "")))
