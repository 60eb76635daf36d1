"""Causes that are known: what has been reduced before need not be reduced again.

Where the model contains the pattern that a known failure was reduced to, that part is tried by
itself. If it fails for the known cause and the rest, fed with the right values, does not fail, this
explains the failure; if the rest fails as well, the rest is what is reduced. So it is for an error
behind a wrong result. Reduction is over as soon as what is left fails for a known
cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.ir.view import NodeView
from nnfuzz.reduction.candidate import NUMBERS, CandidateQuestion, Tried
from nnfuzz.reduction.edit import Edit
from nnfuzz.reduction.trials import Trials
from nnfuzz.triage.cause import Cause, Symptoms
from nnfuzz.triage.mismatch import wrong_outputs
from nnfuzz.triage.pattern import first_copy, pattern_of
from nnfuzz.triage.signature import Failure, HabitDetails, wrong_of

MOST_PLACES = 3
"""Of one pattern in a model."""
MOST_HINTS = 12


class KnownCauses:
    """Recognises causes. found: the recognised cause."""

    def __init__(
        self,
        causes: Sequence[Cause],
        trials: Trials,
        question: CandidateQuestion,
        wanted: str,
        stage: Stage,
    ) -> None:
        """wanted: see nnfuzz.reduction.engine.ReductionEngine. stage: of the failure."""
        self.trials, self.question, self.wanted, self.stage = trials, question, wanted, stage
        wrong = [cause for cause in causes if cause.kind == OutcomeKind.MISMATCH]
        self.before = [] if question.judged else [c for c in wrong if _causes(c.wrong, stage)]
        """What an error may follow from."""
        self.causes = causes
        self.found: Cause | None = None

    def without(self, tried: Tried) -> Tried:
        """A failing case without the sub-graphs that fail for known causes.

        If what remains passes, or only fails at values that were no outputs, `found` is the last of
        these causes, and the result its sub-graph.
        """
        if self.causes and tried.case and tried.case.exporter != "direct":
            emitted = self._run(tried, Edit("direct"))
            tried = emitted if self._fails_too(emitted) else tried
        while hit := self._hit(tried):
            cause, place, part = hit
            rest = [n for node in _nodes(tried) if (n := node.outputs[0]) not in place]
            other = self._run(tried, _alone(rest)) if rest else None
            if (
                other is None
                or (other.digest and not self._fails_too(other))
                or _hidden(tried, other)
            ):
                self.found = cause
                return part
            if not other.digest:
                return tried  # nobody knows what becomes of the rest
            tried = other
        return tried

    def recognises(self, tried: Tried) -> bool:
        """Whether a candidate fails for a known cause."""
        self.found = self._cause(tried, self.question)
        return self.found is not None

    def _hit(self, tried: Tried) -> tuple[Cause, list[str], Tried] | None:
        """A sub-graph that looks like a known pattern and fails for a known cause; the smallest."""
        assert tried.case is not None
        graph = tried.case.graph
        failing = [failure for failure, mark in tried.failing if mark == self.wanted]
        causes = [cause for cause in self.causes if any(cause.says(f, graph) for f in failing)]
        for place in _places(causes, tried):
            part = self._run(tried, _alone(place))
            if cause := self._cause(part, self.question):
                return cause, place, part
        judged = in_full(self.trials, self.question) if self.before else self.question
        for place in _places(self.before, tried):
            part = self.trials.run(tried.case, (_alone(place),), judged)
            if cause := self._cause(part, judged):
                return cause, place, part
        return None

    def _run(self, tried: Tried, edit: Edit) -> Tried:
        assert tried.case is not None
        return self.trials.run(tried.case, (edit,), self.question)

    def _fails_too(self, tried: Tried) -> bool:
        return any(mark == self.wanted for _, mark in tried.failing)

    def _failing(self, tried: Tried) -> list[Failure]:
        """How a case fails: as is wanted, or as something that an error may follow from."""
        own = [failure for failure, mark in tried.failing if mark == self.wanted]
        wrong = causing(tried, self.stage) if self.before else []
        return own or [f for f in wrong if f.kind is OutcomeKind.MISMATCH]

    def _cause(self, tried: Tried, question: CandidateQuestion) -> Cause | None:
        """Why a case fails, if that is known. It is run without the passes that are suspected."""
        case, failing = tried.case, self._failing(tried)
        if case is None or not failing or not self.causes:
            return None
        symptoms = Symptoms.of(case, failing[0], tried.verdict)
        plain = {
            constant: Cause.of(failing[0], case.graph, replace(symptoms, constant=constant)).own
            for constant in (False, True)
        }
        for cause in self.causes:
            # In a larger model, the operator that would be blamed may be there by chance.
            same = cause.own == plain[cause.constant] and len(_nodes(tried)) <= len(cause.nodes)
            if cause.follows and cause.kind == OutcomeKind.MISMATCH:
                same = False  # its operators are those that happen to read a wrong result
            if same and cause.constant:
                same = self._heals_without_constants(tried, question)
            if same or (cause.passes and self._cures(cause, tried, question)):
                return cause
        return None

    def _heals_without_constants(self, tried: Tried, question: CandidateQuestion) -> bool:
        """Whether a case is right where its constant operands are inputs."""
        assert tried.case is not None
        edits = tuple(Edit("unfreezing", name) for name in tried.case.graph.weights)
        again = self.trials.run(tried.case, edits, question) if edits else None
        return again is not None and bool(again.outcomes) and not self._failing(again)

    def _cures(self, cause: Cause, tried: Tried, question: CandidateQuestion) -> bool:
        """Whether it is the pattern of the cause, and fails because of the same passes."""
        case = tried.case
        assert case is not None
        if not pattern_of(cause.graph).like(pattern_of(case.graph)):
            return False
        again = self.trials.run(case, (), replace(question, without=cause.passes))
        return bool(again.outcomes) and not self._failing(again)


def _hidden(whole: Tried, rest: Tried) -> bool:
    """Whether nothing that is wrong in the rest of a case is an output of the case: what is wrong
    with such values is not what the failure is about.
    """
    outputs = {*whole.case.graph.outputs} if whole.case else set()
    wrong = {w.output for w in wrong_outputs(rest.verdict)}
    return bool(outputs and wrong) and outputs.isdisjoint(wrong)


def in_full(trials: Trials, question: CandidateQuestion) -> CandidateQuestion:
    """The question of an error with all that may be wrong before it is raised."""
    ran = replace(question, judged=True, until=Stage.EXECUTE, lazy=False)
    return replace(ran, habits=trials.habits())


def causing(tried: Tried, stage: Stage) -> list[Failure]:
    """The failures of a part that an error at a stage may follow from."""
    pairs = [(failure, failure.signature.details) for failure, _ in tried.failing]
    pairs = [(f, own) for f, own in pairs if not isinstance(own, HabitDetails)]
    return [failure for failure, own in pairs if _causes(wrong_of(own), stage)]


def _causes(wrong: str, stage: Stage) -> bool:
    """A wrong number is a cause only where there are numbers, while the model runs."""
    return stage is Stage.EXECUTE or wrong not in NUMBERS


def _places(causes: Iterable[Cause], tried: Tried) -> list[list[str]]:
    """Where the patterns of causes occur, the smallest first."""
    nodes, by_size = _nodes(tried), sorted(causes, key=lambda cause: len(cause.nodes))
    found = [place for cause in by_size for place in occurrences(cause.nodes, nodes)]
    return [list(place) for place in dict.fromkeys(map(tuple, found))][:MOST_HINTS]


def _nodes(tried: Tried) -> list[NodeView]:
    return first_copy(tried.case.graph) if tried.case and tried.case.graph else []


def _alone(place: Sequence[str]) -> Edit:
    """Nodes by themselves, fed with the values of the whole."""
    return Edit("neighbourhoods", "input", list(place))


def occurrences(wanted: Sequence[NodeView], nodes: Sequence[NodeView]) -> Iterator[list[str]]:
    """Where all operators of a pattern are among some nodes, connected as there: the first outputs
    of these, in their order. At most MOST_PLACES.
    """
    have, need = (Counter(node.op for node in part) for part in (nodes, wanted))
    if not wanted or need - have:
        return
    position = {node.outputs[0]: i for i, node in enumerate(nodes)}
    places = set()
    for match in _matches(wanted, nodes, []):
        place = sorted((node.outputs[0] for node in match), key=position.__getitem__)
        if tuple(place) not in places:
            places.add(tuple(place))
            yield place
        if len(places) == MOST_PLACES:
            return


def _matches(
    wanted: Sequence[NodeView],
    nodes: Sequence[NodeView],
    chosen: list[NodeView],
) -> Iterator[list[NodeView]]:
    """Nodes that stand for the wanted ones, which are in topological order."""
    if len(chosen) == len(wanted):
        yield list(chosen)
        return
    node = wanted[len(chosen)]
    makers = [i for i, n in enumerate(wanted[: len(chosen)]) if {*n.outputs} & {*node.inputs}]
    for candidate in nodes:
        reads = {*candidate.inputs}
        if candidate.op != node.op or any(candidate is other for other in chosen):
            continue
        if all(reads & {*chosen[i].outputs} for i in makers):
            yield from _matches(wanted, nodes, [*chosen, candidate])
