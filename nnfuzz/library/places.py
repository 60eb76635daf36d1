"""Where the failures of a model begin: the first wrong value, and the passes that are to blame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nnfuzz.compare.mismatch import Mismatch
from nnfuzz.execute.outcome import OutcomeKind
from nnfuzz.execute.target import Target
from nnfuzz.experiment import result as engine
from nnfuzz.library.experiment import Experiment
from nnfuzz.library.finding import Failure
from nnfuzz.library.model_check import Output, Place
from nnfuzz.library.values import View, label, mismatch_of

Watch = Callable[[str], None]


@dataclass
class Places:
    """Looks for the nodes and passes at which failures begin."""

    run: Experiment
    view: View
    localise: bool
    watch: Watch
    shown: engine.Result | None = None
    values: tuple[Output, ...] = ()

    def needed(self, result: engine.Result) -> bool:
        """Whether every value must be looked at: something is wrong."""
        return any(failure.kind is OutcomeKind.MISMATCH for failure in result.failures)

    def look(self) -> tuple[Output, ...]:
        """What every target makes of every value, in topological order; () if that is not known."""
        from nnfuzz.testcase.client import ProducerError

        try:
            self.shown = self.run.once(self.run.exposed(self.view.case))
        except ProducerError:
            return ()
        self.values = self.view.outputs(self.shown, made=True)
        return self.values

    def of(self, failure: Failure) -> Place:
        """The place of a failure, at the least optimised target that fails."""
        targets = tuple(label(target) for target in failure.targets)
        finding, told = failure.finding, {}
        if self.localise:
            self.watch(f"looking for the cause: {failure.signature.title}")
            finding = self.run.localise(failure)
            told = dict(finding.localisation or {})
        place = Place(
            finding,
            targets,
            accused=told.get("party", "") or self.run_blame(failure),
            passes=tuple(told.get("passes", ())),
            evidence=tuple(told.get("evidence", ())),
        )
        if failure.kind is not OutcomeKind.MISMATCH or self.shown is None:
            return place
        return self._first(place, failure.targets[0], failure)

    def run_blame(self, failure: Failure) -> str:
        return failure.finding.blame.accused

    def _first(self, place: Place, target: Target, failure: Failure) -> Place:
        """The place with the first wrong value of a target."""
        assert self.shown is not None
        for value in self.values:
            if wrong := mismatch_of(self.shown, self._twin(target), value.name):
                return self._at(place, value, wrong, "")
        found = self._fused(target, failure)
        if found is None:
            return place
        value, wrong = found
        return replace(
            self._at(place, value, wrong, "right if every value is an output: it takes a fusion"),
            fused=True,
        )

    def _twin(self, target: Target) -> Target:
        """The same target in the run with every value as an output, which may differ in form."""
        assert self.shown is not None
        twins = (o.target for o in self.shown.outcomes if label(o.target) == label(target))
        return next(twins, target)

    def _at(self, place: Place, value: Output, wrong: Mismatch, before: str) -> Place:
        node = self.view.case.graph.makers[value.name]
        shares = {v.name: v.share for v in self.values}
        unsure = [n for n in node.inputs if shares.get(n, 1.0) < 1]
        told = before or "what it reads is right"
        if unsure and not before:
            told = (
                f"what it reads is right as far as it is compared: {', '.join(unsure)} is not whole"
            )
        return replace(
            place,
            value=value.name,
            operator=value.operator,
            node=value.node,
            wrong=wrong,
            before=told,
        )

    def _fused(self, target: Target, failure: Failure) -> tuple[Output, Mismatch] | None:
        """The last node of the shortest beginning of the model that is wrong at a target.

        Bisection over the number of nodes: values that no node of a beginning reads are outputs.
        """
        from nnfuzz.testcase.foreign import with_outputs

        assert self.shown is not None
        case, expected = self.view.case, self.shown.case.expected
        graph = self.view.graph(case)
        right, wrong, found = 0, len(graph.nodes), None
        while wrong - right > 1 or found is None:
            count = (right + wrong) // 2 if wrong - right > 1 else wrong
            read = {name for node in graph.nodes[:count] for name in node.inputs}
            made = [name for node in graph.nodes[:count] for name in node.outputs]
            ends = [n for n in made if n not in read or (n in graph.outputs)]
            cut = with_outputs(case, graph, ends, expected)
            if cut is None:
                return None
            done = self.run.once(cut, {failure.backend: [target.level]})
            (outcome,) = done.outcomes
            bad = [m for m in map(lambda n: mismatch_of(done, outcome.target, n), ends) if m]
            if bad:
                wrong, found = count, bad[0]
            elif count == wrong:
                return None
            else:
                right = count
        value = next(v for v in self.values if v.name == found.output)
        return value, found
