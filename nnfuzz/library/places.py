"""Where the failures of a model begin: the first wrong value or failing node, and the passes that
are to blame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.compare.mismatch import Mismatch
from nnfuzz.library.experiment import Experiment, Result
from nnfuzz.library.finding import Failure
from nnfuzz.library.model_check import Output, Place
from nnfuzz.library.values import View, label, mismatch_of
from nnfuzz.testcase.case import TestCase

Watch = Callable[[str], None]
FUSED = "right if every value is an output: it takes a fusion with nodes in front of it"
ENDS = "the model up to this node fails in the same way, and without it does not"


@dataclass
class Places:
    """Looks for the nodes and passes at which failures begin.

    exposed: the case with every value as an output, None if there is none. exposed_result: the
    targets' result for it; values: the same, as reports have it.
    """

    run: Experiment
    view: View
    localise: bool
    watch: Watch
    exposed: TestCase | None = None
    exposed_result: Result | None = None
    values: tuple[Output, ...] = ()

    def look(self) -> tuple[Output, ...]:
        """Every target's result for every value, in topological order; () if that is not known."""
        if self.exposed is None:
            return ()
        self.watch("looking at every value")
        self.exposed_result = self.run(self.exposed)
        self.values = self.view.outputs(self.exposed_result, made=True)
        return self.values

    def hidden(self, result: Result) -> list[Failure]:
        """The wrong values of targets on which no output of the model is wrong: later nodes hide
        them, whose own rounding may be as large."""
        known = {label(target) for failure in result.failures for target in failure.targets}
        return [
            failure
            for failure in (self.exposed_result.failures if self.exposed_result else ())
            if failure.kind is OutcomeKind.MISMATCH
            and known.isdisjoint(map(label, failure.targets))
        ]

    def of(self, failure: Failure, hidden: bool = False) -> Place:
        """The place of a failure, at the least optimised target that fails.

        hidden: whether it shows in the run with every value as an output alone.
        """
        finding, localisation = failure.finding, {}
        if self.localise:
            self.watch(f"looking for the cause: {failure.signature.title}")
            finding = self.run.localise(failure)
            localisation = dict(finding.localisation or {})
        place = Place(
            finding,
            tuple(label(target) for target in failure.targets),
            accused=localisation.get("party", "") or finding.blame.accused,
            passes=tuple(localisation.get("passes", ())),
            evidence=tuple(localisation.get("evidence", ())),
            hidden=hidden,
        )
        if failure.kind is OutcomeKind.MISMATCH and (first := self._first(failure)):
            return self._at(place, *first, before=self._sure(first[0]))
        if self.exposed is None or failure.kind is OutcomeKind.TIMEOUT:
            return place
        self.watch(f"looking for the node: {failure.signature.title}")
        last = self._last(failure, self.exposed)
        if last is None:
            return place
        fused = failure.kind is OutcomeKind.MISMATCH
        return replace(self._at(place, *last, before=FUSED if fused else ENDS), fused=fused)

    def _first(self, failure: Failure) -> tuple[str, Mismatch] | None:
        """The first wrong value of a failure's first target where every value is an output."""
        if self.exposed_result is None:
            return None
        mine = label(failure.targets[0])
        target = next(o.target for o in self.exposed_result.outcomes if label(o.target) == mine)
        for own in self.values:
            if wrong := mismatch_of(self.exposed_result, target, own.name):
                return own.name, wrong
        return None

    def _sure(self, value: str) -> str:
        """A sentence on what the node reads that computes the first wrong value."""
        shares = {own.name: own.share for own in self.values}
        read = self.view.case.graph.makers[value].inputs
        unsure = [name for name in read if shares.get(name, 1.0) < 1]
        if not unsure:
            return "what it reads is right"
        return f"what it reads is right as far as it can be compared, {', '.join(unsure)} in part"

    def _at(self, place: Place, value: str, wrong: Mismatch | None, before: str) -> Place:
        operator, node = self.view.maker(value)
        return replace(place, value=value, operator=operator, node=node, wrong=wrong, before=before)

    def _last(self, failure: Failure, exposed: TestCase) -> tuple[str, Mismatch | None] | None:
        """The value that ends the shortest beginning of the model that fails in the same way, and
        how it is wrong if it is; by bisection over the number of nodes.
        """
        right, wrong = 0, len(self.view.case.graph.nodes)
        last = self._fails(failure, exposed, wrong)
        while last is not None and wrong - right > 1:
            middle = (right + wrong) // 2
            if ends := self._fails(failure, exposed, middle):
                wrong, last = middle, ends
            else:
                right = middle
        return last

    def _fails(
        self, failure: Failure, exposed: TestCase, count: int
    ) -> tuple[str, Mismatch | None] | None:
        """The last value of a beginning of so many nodes, or its first wrong one, if it fails as
        the model does; None if it does not. What none of its nodes reads is an output.
        """
        from nnfuzz.testcase.foreign import with_outputs

        graph = self.view.graph(self.view.case)
        nodes = graph.nodes[:count]
        read = {name for node in nodes for name in node.inputs} - {*graph.outputs}
        ends = [name for node in nodes for name in node.outputs if name not in read]
        ends = [name for name in ends if name in exposed.expected]
        cut = with_outputs(self.view.case, graph, ends, exposed.expected)
        if cut is None:
            return None
        done = self.run.once(cut, {failure.backend: failure.levels[:1]})
        (outcome,) = done.outcomes
        if failure.kind is not OutcomeKind.MISMATCH:
            same = (outcome.kind, outcome.stage) == (failure.kind, failure.stage)
            return (ends[-1], None) if same else None
        wrong = ((name, mismatch_of(done, outcome.target, name)) for name in ends)
        return next(((name, own) for name, own in wrong if own), None)
