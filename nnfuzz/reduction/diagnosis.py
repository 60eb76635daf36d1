"""What else tells the cause of a reduced case: experiments that begin where reduction ends.

- Hypotheses on how the result comes about (explain.py), held against other inputs too.
- What heals a wrong result (experiments.py): the same attribute, constants, an operand less.
- The operands of an operator that raises: if they fail by themselves, the error only follows.
- The operators of ONNX that one of ours became: the first one that is wrong is the one to show.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import DIRECT
from nnfuzz.ir.view import NO_GRAPH, NodeView
from nnfuzz.reduction.candidate import NUMBERS, CandidateQuestion, Difference, Tried, enough
from nnfuzz.reduction.edit import READERS, Edit
from nnfuzz.reduction.experiments import CONSTANT, exposed, healing, narrowest_cause, shared_key
from nnfuzz.reduction.known import causing, in_full
from nnfuzz.reduction.trials import Trials
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.cause import Cause, Symptoms, type_key, wrong_fact
from nnfuzz.triage.keys import NAN, UNBOUND, Claim, Hypothesis, Key, KeyKind
from nnfuzz.triage.mismatch import wrong_outputs
from nnfuzz.triage.pattern import (
    data_operators,
    first_copy,
    general_message,
    onnx_type,
    operator_types,
    written_types,
)
from nnfuzz.triage.signature import (
    EVERYWHERE,
    FAILURES,
    ErrorDetails,
    Failure,
    HabitDetails,
    RefusalDetails,
    message_of,
    wordless,
    wrong_of,
)

REDRAWS, MOST_REDRAWS = 2, 8
"""Further inputs that a hypothesis must predict: each leaves few coincidences. More of them where
these show too little.
"""
MOST_INSIDE = 24
"""Operators of ONNX that are tried one by one: an exporter makes many of one of ours."""


@dataclass(frozen=True)
class Diagnosis:
    """What the experiments say of the cause of a reduced failure.

    explanations: hypotheses that predict the wrong result, the most general first. keys: of the
    causes that the failure shares. follows: the hash of the cause of the failure that this one only
    follows from, and by which alone it is known. heals: see nnfuzz.reduction.experiments.
    """

    explanations: tuple[Hypothesis, ...] = ()
    keys: tuple[Key, ...] = ()
    follows: str = ""
    heals: tuple[str, ...] = ()


NOTHING = Diagnosis()


def diagnose(
    trials: Trials,
    question: CandidateQuestion,
    history: Sequence[Tried],
    failure: Failure,
    causes: Sequence[Cause],
) -> Diagnosis:
    """Experiments on a reduced case, until its cause is known. history: cases that fail so, the
    reduced one last. causes: of the same backend and kind.

    Raises: WorkerError if a worker of nnfuzz fails.
    """
    best = history[-1]
    habitual = isinstance(failure.signature.details, HabitDetails)
    if best.case is None or trials.runner is None or habitual:
        return NOTHING
    before = _before(trials, question, best, failure)
    if before is None:
        return _own(trials, question, history, failure, causes)
    tried, wrong = before
    cause = _cause(tried, wrong)
    keys: tuple[Key, ...] = ()
    if wrong.kind is OutcomeKind.MISMATCH and cause.hash not in {known.own for known in causes}:
        keys = _own(trials, in_full(trials, question), [tried], wrong, causes).keys
    if wordless(wrong.signature.details):
        keys = tuple(sorted(_of_death(trials, question, tried, wrong)))
    if _same_words(wrong, failure, best, tried):  # an operator with the same message by itself
        return Diagnosis((), keys, cause.hash)
    return Diagnosis((Hypothesis(Claim.FOLLOWS, detail=wrong.signature.title),), keys, cause.hash)


def _own(
    trials: Trials,
    question: CandidateQuestion,
    history: Sequence[Tried],
    failure: Failure,
    causes: Sequence[Cause],
) -> Diagnosis:
    """The same for a failure that follows from no other one."""
    best = history[-1]
    explanations, operands = _explanations(trials, question, history, failure)
    mismatch = failure.kind is OutcomeKind.MISMATCH
    heals = healing(trials, question, best, failure) if mismatch else ()
    operator = _nodes(best)[-1].op
    if CONSTANT in heals:
        explanations = {}  # the operator itself is right, whatever its results look like
    mismatches = [cause for cause in causes if cause.kind == OutcomeKind.MISMATCH]
    one = narrowest_cause(heals, [cause.heals for cause in mismatches])
    common = [_likeliest(explanations, mismatches), shared_key(one, operator, operands)]
    keys = {
        Key(KeyKind.CAUSE, _explained(failure, same))
        for claimed in common
        if claimed
        for same in _in_family(trials, operator, claimed)
    }
    if CONSTANT not in heals:
        keys |= {Key(KeyKind.CAUSE, own) for own in _redrawn(trials, question, best, failure)}
    if any((h.claim, h.detail) == (Claim.IGNORES, NAN) for h in explanations):
        keys.add(Key(KeyKind.HABIT, f"{failure.compiler} ignores {NAN}"))
    if wordless(failure.signature.details):
        keys |= _of_death(trials, question, best, failure)
    if maker := _maker_at_fault(trials, question, best, failure):
        keys.add(type_key(failure.compiler, wrong_fact(failure), maker))
    if claimed := _at_fault(trials, question, best, failure):
        keys.add(Key(KeyKind.CAUSE, _explained(failure, claimed)))
        explanations = explanations or {claimed: claimed}
    return Diagnosis(tuple(explanations), tuple(sorted(keys)), heals=heals)


def _redrawn(
    trials: Trials, question: CandidateQuestion, best: Tried, failure: Failure
) -> Iterator[str]:
    """Yields hashes of the causes of a wrong operator with other inputs, since its inputs decide
    whether some digits or whole numbers are wrong. Yields none if the least optimised level is
    right: a pass may be to blame.
    """
    everywhere = failure.signature.parts.get("levels") == EVERYWHERE
    numbers = wrong_of(failure.signature.details) in NUMBERS
    for seed in range(1, REDRAWS + 1) if everywhere and numbers and len(_nodes(best)) == 1 else ():
        assert best.case is not None
        again = trials.run(best.case, (Edit("redrawing", value=seed),), question)
        wrong = (f for f in _wrong(again) if wrong_of(f.signature.details) in NUMBERS)
        yield from (_cause(again, f).own for f in wrong)


def _likeliest(
    explanations: Mapping[Hypothesis, Hypothesis], causes: Iterable[Cause]
) -> Hypothesis | None:
    """The family of the first hypothesis that holds and that also comes first for a known cause; if
    there is none, the family of the first one.
    """
    known = {first for cause in causes for first in cause.explanations[:1]}
    preferred = (family for h, family in explanations.items() if h in known)
    return next(itertools.chain(preferred, explanations.values()), None)


def _of_death(
    trials: Trials, question: CandidateQuestion, best: Tried, failure: Failure
) -> set[Key]:
    """Keys of a death that says nothing: the operator of ONNX that dies by itself, if one of ours
    became several, and the families of the operator, which share it for all that is known.
    """
    if len(_nodes(best)) != 1:
        return set()
    parts = _one_by_one(trials, question, best) if _written(best) > 1 else ()
    alone = [(t, f) for t in parts for f, _ in t.failing if _same_words(f, failure, best, t)]
    tried = alone[0][0] if alone else best
    signal, stage = failure.signature.parts["signal"], _cause(tried, failure).parts["stage"]
    families = trials.families(_nodes(tried)[-1].op)
    texts = [f"{failure.compiler} {signal} in {stage} at {family}" for family in families]
    return {Key(KeyKind.CAUSE, text) for text in [*texts, *(_cause(*p).hash for p in alone[:1])]}


def _in_family(trials: Trials, operator: str, claimed: Hypothesis) -> list[str]:
    """The texts of a claim that all operators share which are computed by the same code. A claim
    that an attribute is ignored is about the class that declares it. A claim that names no operator
    is about the operator and about each small family of it. Operators that have only a dtype, a
    default or a constant in common have causes of their own.
    """
    if claimed.claim is Claim.IGNORES and claimed.subject == operator:
        families = trials.families(operator, claimed.detail)
        return [str(replace(claimed, subject=name)) for name in families or [operator]]
    if claimed.claim not in UNBOUND:
        return [str(claimed)]
    return [f"{claimed} at {name}" for name in (operator, *trials.families(operator))]


def _written(tried: Tried) -> int:
    """How many operators of ONNX a case applies to its inputs."""
    return len(data_operators(tried.case.model)) if tried.case and tried.case.model else 0


def _explained(failure: Failure, claimed: Hypothesis | str) -> str:
    """The key of mismatches that one claim explains."""
    return f"{failure.compiler} {failure.signature.parts.get('levels', '')} {claimed}"


def _explanations(
    trials: Trials, question: CandidateQuestion, history: Sequence[Tried], failure: Failure
) -> tuple[Mapping[Hypothesis, Hypothesis], Hypothesis | None]:
    """Returns the hypotheses that predict the wrong results of several inputs, with their families.

    Only hypotheses that agree by more than chance count. If the reduced case is too small to show
    that, a larger case with the same operators decides. The second result is the family of an
    operator with many operands.
    """
    if failure.kind is not OutcomeKind.MISMATCH:
        return {}, None
    held: Mapping[Hypothesis, Hypothesis] = {}
    operands: Hypothesis | None = None
    tried, observed, grown = 0, set[Difference](), True
    for case in _witnesses(history):
        for seed in range(MOST_REDRAWS + 1):
            if seed > REDRAWS and (enough(observed, tried) or not grown):
                break
            edits = (Edit("redrawing", value=seed),) if seed else ()
            again = trials.run(case, edits, question)
            wrong = _outcome(again, failure)
            if again.case is None or wrong is None:
                continue
            explained = trials.explain(again.case, wrong.outputs or {}, list(held))
            held, tried = explained.explanations, max(tried, explained.tried)
            operands = explained.operands
            more = {_with_seed(pair, seed) for pair in explained.differences} - observed
            observed, grown = observed | more, bool(more)
            if not held:
                return {}, operands
        if enough(observed, tried):
            return held, operands
    return {}, operands


def _with_seed(pair: Difference, seed: int) -> Difference:
    """Makes a difference between booleans, which names its place, name its inputs as well."""
    kind, right, actual = pair
    return (f"{kind} {seed}", right, actual) if kind.startswith("bool") else pair


def _witnesses(history: Sequence[Tried]) -> Iterator[TestCase]:
    """Yields the reduced case, then the first larger one with the same operators.

    A larger case with the same dtypes comes before others.
    """
    best = history[-1]
    assert best.case is not None
    operators = [node.op for node in best.case.graph.nodes]
    cases = [tried.case for tried in history if tried.case and tried.digest != best.digest]
    similar = [case for case in cases if [node.op for node in case.graph.nodes] == operators]
    dtypes = {*best.case.graph.dtypes.values()}
    similar.sort(key=lambda case: {*case.graph.dtypes.values()} != dtypes)
    yield from (best.case, *similar[:1])


def _outcome(tried: Tried, failure: Failure) -> Outcome | None:
    """What the first level of a mismatch returned, in whatever form."""
    return next((o for o in tried.outcomes if o.level in failure.levels and o.outputs), None)


def _wrong(tried: Tried) -> list[Failure]:
    return [f for f, _ in tried.failing if f.kind is OutcomeKind.MISMATCH]


def wrong_inside(
    trials: Trials, question: CandidateQuestion, best: Tried, wanted: str
) -> Tried | None:
    """The first operator of ONNX that is wrong by itself, where one of ours became several or an
    exporter wrote the model of a mismatch. Else the case whose nodes are those of the written ONNX
    model, if the graph has others: a compiler sees no more of it. None if that is nothing new.
    """
    alone = _inside(trials, question, best) if question.judged else None
    if alone is None and best.case and best.case.model and _written_otherwise(best):
        alone = trials.run(best.case, (Edit("importing"),), question)
    new = alone is not None and alone.digest != best.digest
    return alone if new and alone and any(mark == wanted for _, mark in alone.failing) else None


def _written_otherwise(best: Tried) -> bool:
    """Whether the model of a case applies other operators to its inputs than the graph has."""
    assert best.case is not None
    written = [type_ for type_, _ in data_operators(best.case.model)]
    own = [onnx_type(node.op, [*written]) or node.op for node in _nodes(best)]
    return sorted(written) != sorted(own)


def _inside(trials: Trials, question: CandidateQuestion, best: Tried) -> Tried | None:
    """That operator alone; what an exporter wrote in the direct form, if it is one operator."""
    direct = best.case is None or best.case.exporter == DIRECT
    if best.case is None or (direct and len(_nodes(best)) != 1):
        return None
    whole = trials.run(best.case, (Edit("importing"),), question)
    if whole.case is None:
        return next((alone for alone in _one_by_one(trials, question, best) if _wrong(alone)), None)
    alone: Tried | None = None if direct else whole
    if whole.case and len(_nodes(whole)) > 1:
        alone = _first_alone(trials, question, exposed(trials, question, whole))
    return alone


def _one_by_one(trials: Trials, question: CandidateQuestion, best: Tried) -> Iterator[Tried]:
    """The operators of ONNX that a case applies to its inputs, each alone; at most MOST_INSIDE."""
    assert best.case is not None
    for _, name in data_operators(best.case.model)[:MOST_INSIDE]:
        yield trials.run(best.case, (Edit("importing", name),), question)


def _before(
    trials: Trials, question: CandidateQuestion, best: Tried, failure: Failure
) -> tuple[Tried, Failure] | None:
    """What fails before the last operator of a case that raises, if anything does: the error only
    follows from it, as it does not occur where right values are fed. So does a wrong result from
    one that is wrong in another way.

    What the least optimised level says of the model is the cause of what others say, too.
    """
    if failure.kind is OutcomeKind.MISMATCH:
        return _wrong_before(trials, question, best)
    whole = in_full(trials, question)
    tried, direct = best, best.case is None or best.case.exporter == DIRECT
    if best.case and (not direct or len(_nodes(best)) == 1):
        tried = trials.run(best.case, (Edit("importing"),), replace(whole, judged=False))
    if tried.case is None:
        inside = _among([*_one_by_one(trials, whole, best)], best, failure)
        return inside or _plainly(best, failure)
    if _alone_as_well(trials, question, tried, failure):
        return None
    found = _shortest(trials, whole, tried, failure.stage)
    if found is None:
        return _plainly(best, failure)
    alone = _first_alone(trials, whole, found) or _last_alone(trials, whole, found, failure.stage)
    inner = _inside(trials, whole, alone) or alone
    best = next(t for t in (inner, alone, found) if causing(t, failure.stage))
    return best, causing(best, failure.stage)[0]


def _last_alone(trials: Trials, question: CandidateQuestion, tried: Tried, stage: Stage) -> Tried:
    """The last operator of a prefix that dies, if that dies alone; else the prefix."""
    if tried.case is None or not any(f.kind is OutcomeKind.CRASH for f, _ in tried.failing):
        return tried
    last = Edit("neighbourhoods", "input", [*_nodes(tried)[-1].outputs[:1]])
    alone = trials.run(tried.case, (last,), question)
    return alone if causing(alone, stage) else tried


def _wrong_before(
    trials: Trials, question: CandidateQuestion, best: Tried
) -> tuple[Tried, Failure] | None:
    """The operator before the last one of a mismatch that is wrong by itself, if one is: of another
    shape, since reduction would have kept it alone otherwise.
    """
    if len(_nodes(best)) < 2:
        return None
    alone = _first_alone(trials, question, exposed(trials, question, best))
    return (alone, _wrong(alone)[0]) if alone else None


def _among(parts: Sequence[Tried], best: Tried, failure: Failure) -> tuple[Tried, Failure] | None:
    """The first of some operators that is wrong by itself, unless one of them raises what the
    whole case does.
    """
    if any(_same_words(found, failure, best, t) for t in parts for found, _ in t.failing):
        return None
    return next(((t, wrong[0]) for t in parts if (wrong := causing(t, failure.stage))), None)


def _shortest(
    trials: Trials, question: CandidateQuestion, tried: Tried, stage: Stage
) -> Tried | None:
    """The fewest first nodes, but not all, in which something fails that an error at a stage may
    follow from. More of them show it as well.
    """
    found, fine, failing = None, 0, len(_nodes(tried))
    while failing - fine > 1:
        middle = (fine + failing) // 2
        part = exposed(trials, question, tried, middle)
        if causing(part, stage):
            found, failing = part, middle
        else:
            fine = middle
    return found


def _cause(tried: Tried, failure: Failure) -> Cause:
    assert tried.case is not None
    return Cause.of(failure, tried.case.graph, Symptoms.of(tried.case, failure, tried.verdict))


def _alone_as_well(
    trials: Trials, question: CandidateQuestion, tried: Tried, failure: Failure
) -> list[tuple[Tried, Failure]]:
    """How the last of several operators says the same without the others, if it does: then it is
    the one that fails, whatever else differs.
    """
    nodes = _nodes(tried)
    if len(nodes) < 2 or tried.case is None:
        return []
    last = Edit("neighbourhoods", "input", [*nodes[-1].outputs[:1]])
    alone = trials.run(tried.case, (last,), question)
    return [
        (alone, found) for found, _ in alone.failing if _same_words(found, failure, tried, alone)
    ]


def _plainly(best: Tried, failure: Failure) -> tuple[Tried, Failure] | None:
    """The error of the least optimised level, if that fails in another way."""
    first = best.outcomes[0].level if best.outcomes else ""
    if first in failure.levels:
        return None
    errors = (found for found, _ in best.failing if found.kind in FAILURES)
    return next(((best, found) for found in errors if first in found.levels), None)


def _first_alone(trials: Trials, question: CandidateQuestion, exposed: Tried) -> Tried | None:
    """The operator of the first wrong value alone, fed with right ones, if it is wrong then."""
    wrong = {w.output for w in wrong_outputs(exposed.verdict)}
    first = [node.outputs[0] for node in _nodes(exposed) if not wrong.isdisjoint(node.outputs)]
    if not first or exposed.case is None:
        return None
    alone = trials.run(exposed.case, (Edit("neighbourhoods", "input", first[:1]),), question)
    return alone if _wrong(alone) else None


def _maker_at_fault(
    trials: Trials, question: CandidateQuestion, best: Tried, failure: Failure
) -> str:
    """The operator of ONNX whose result a compiler takes for another dtype or shape. It is that of
    the first node such that the rest of the model runs once the node's results are inputs; "" if
    there is none, or if the error is about something else.
    """
    nodes = _nodes(best)
    plainest = best.outcomes[0].level if best.outcomes else ""
    if best.case is None or len(nodes) < 2 or not wrong_fact(failure):
        return ""
    if plainest not in failure.levels:  # the rewriting of both may be wrong
        return ""
    types = written_types(best.case.model, best.case.graph) if best.case.model else {}
    for node in nodes[:-1]:
        rest = [other.outputs[0] for other in nodes if other is not node]
        tried = trials.run(best.case, (Edit("neighbourhoods", "input", rest),), question)
        if tried.outcomes and not tried.failing and all(o.ok for o in tried.outcomes):
            return types.get(node.outputs[0], node.op)
    return ""


def _at_fault(
    trials: Trials, question: CandidateQuestion, best: Tried, failure: Failure
) -> Hypothesis | None:
    """That the first operator of a failing pair still fails with a plain one in the place of the
    second; None if it does not.
    """
    nodes = _nodes(best)
    if len(nodes) < 2 or best.case is None:
        return None
    case, graph = best.case, best.case.graph
    at_fault = set[Hypothesis]()
    for name in dict.fromkeys(name for name in nodes[-1].inputs if name in graph.makers):
        readers = (trials.run(case, (Edit("readers", name, r),), question) for r in READERS)
        if any(_fails_by_pair(trials, question, tried, failure) for tried in readers):
            maker = graph.makers[name].op
            type_ = onnx_type(maker, operator_types(case.model)) or maker
            dtype = graph.dtypes[name]
            at_fault.add(Hypothesis(Claim.WRONG_FOR_READERS, type_, f"({dtype})"))
    return at_fault.pop() if len(at_fault) == 1 else None


def _fails_by_pair(
    trials: Trials, question: CandidateQuestion, tried: Tried, failure: Failure
) -> bool:
    """Whether a case fails in the way and at the levels of a failure, and its last operator does
    not by itself.
    """
    ways = [
        (f.kind, f.stage, f.levels)
        for f, _ in tried.failing
        if not isinstance(f.signature.details, HabitDetails)
    ]
    if tried.case is None or (failure.kind, failure.stage, failure.levels) not in ways:
        return False
    last = Edit("neighbourhoods", "input", [_nodes(tried)[-1].outputs[0]])
    return not trials.run(tried.case, (last,), question).failing


def _nodes(tried: Tried) -> list[NodeView]:
    return first_copy(tried.case.graph) if tried.case else []


def _same_words(own: Failure, wanted: Failure, one: Tried, other: Tried) -> bool:
    """Whether two failures are of one kind and say the same, dtypes and operators aside."""
    if (own.kind, own.stage) != (wanted.kind, wanted.stage):
        return False
    a, b = (_general(f, tried) for f, tried in ((own, other), (wanted, one)))
    return a == b


def _general(failure: Failure, tried: Tried) -> tuple[str, str]:
    details, graph = failure.signature.details, tried.case.graph if tried.case else NO_GRAPH
    dtypes = {*graph.dtypes.values()}
    message = general_message(message_of(details), dtypes, graph.operators)
    if isinstance(details, ErrorDetails | RefusalDetails):
        return message, details.error or ""
    return message, wrong_of(details)
