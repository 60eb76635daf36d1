"""Checks a user's model: do compilers compute it right, and if not, where does the computation go
wrong?"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.backend.numeric import BY_DEFAULT, strange
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.target import DEFAULT, DIRECT, ONNX, Target
from nnfuzz.base.threads import one_thread
from nnfuzz.compare.mismatch import ENOUGH, Contradiction, Mismatch
from nnfuzz.experiment.judge import OPAQUE
from nnfuzz.experiment.result import Judging, Result
from nnfuzz.ir.dtypes import is_floating, plain
from nnfuzz.ir.sizes import from_copies
from nnfuzz.ir.view import NO_GRAPH
from nnfuzz.library.case import Inputs, case_from_onnx, each_call, model_proto
from nnfuzz.library.experiment import Experiment, Oracle, check_targets, required_backend
from nnfuzz.library.model_check import (
    ARBITER,
    GIVEN,
    Computed,
    ModelCheck,
    Output,
    OutputState,
    Place,
    label,
    type_text,
)
from nnfuzz.library.plugins import known_plugins, operator_registry
from nnfuzz.materialize.validity import invalid
from nnfuzz.records.finding import Finding
from nnfuzz.testcase.case import ModelError, NoReference, TestCase
from nnfuzz.testcase.client import ProducerError
from nnfuzz.testcase.identity import ForeignId
from nnfuzz.triage.signature import Failure, HabitDetails

if TYPE_CHECKING:
    import onnx

    from nnfuzz.compare.envelope import Enclosure, Envelope

MESSAGE = 400  # characters of a compiler's message
UNREACHED = ("nnfuzz cannot compute what it needs, or no input decides on it",)
FUSED = "right if every value is an output: it takes a fusion with nodes in front of it"
ROUNDS = 24  # most times that values without a close reference are taken as inputs
PART = 32  # most values that are looked at each time: behind more of them little is left to say
ENDS = "the model up to this node fails in the same way, and without it does not"


def check_model(
    model: str | Path | bytes | onnx.ModelProto | TestCase,
    targets: Sequence[str | Target] = (),
    inputs: Inputs = None,
    *,
    expected: Sequence[Mapping[str, np.ndarray]] = (),
    values: bool = True,
    localise: bool = True,
    seed: int = 0,
    plugins: Iterable[str | Path] = (),
    watch: Callable[[str], None] = lambda step: None,
    reading: AbstractContextManager[None] | None = None,
) -> ModelCheck:
    """Runs a model on compilers and reports the wrong outputs of each, and where the error begins.

        check = nnfuzz.check_model("mine.onnx", ["onnxruntime", "tvm"])
        print(check)
        assert check.ok

    model: a file, its bytes, a ModelProto, or a test case. targets: as in `Experiment`; default:
    the installed compilers that read ONNX. inputs: arrays by name, or a list of such, one for each
    call of the compiled program; default: valid ones are searched, a function of the model and
    `seed`. expected: outputs of each call that somebody else computed, to be compared, too; they
    make no target wrong. values: whether the model runs once more with every value as an output,
    which names the first wrong node, and shows wrong values that later nodes hide. localise:
    whether the passes that are to blame are looked for. watch: called before each step with what it
    is. reading: entered while the model is read.

    Raises: TypeError for arguments of the wrong kind, before anything runs; ModelError if the model
    is not valid, or the inputs do not fit it; NoReference if it takes what is no tensor; what
    `Experiment` raises; OSError.
    """

    check_targets(targets)
    plugins = list(plugins)
    notes = list[str]()
    watch("reading the model")
    with reading or nullcontext(), one_thread():  # threads wait for each other on busy machines
        if isinstance(model, TestCase):
            cases, why = iter([model]), ""
        else:
            cases, why = cases_to_check(model, inputs, seed, plugins, notes.append)
        case = next(cases)
    oracle = Oracle(plugins)
    targets = _with_defaults(targets or installed_compilers(plugins), plugins)
    with Experiment(targets, plugins, isolated=False) as run:
        watch(f"running {', '.join(spec.label for spec in run.specs)}")
        if why and inputs is None:
            case = _that_runs(run, case, cases, plugins)
        missing = "guessed inputs" if case.graph else "no reference"
        notes += [f"note: {missing}: {why}"] if why else []
        result = run(case)
        ran = any(o.outputs is not None for o in result.outcomes)
        if not ran and (problem := invalid(case.model)):
            raise ModelError(f"nobody runs it, and it is not valid: {problem}")
        own = _Examination(run, case, oracle, localise, watch, from_copies(expected))
        if values:
            own.look(_known(result))
        found = run.findings(result)
        if why and inputs is None:  # it may be the guessed inputs' fault
            found = [one for one in found if one.failure.stage is not Stage.EXECUTE]
        places = [own.place(finding) for finding in found]
        places += [own.place(finding, hidden=True) for finding in own.hidden(result)]
        outputs = own.outputs(result)
        if any(output.judged < ENOUGH for output in outputs):
            more, said = own.behind(plugins, places)
            places += more
            notes += said
    return ModelCheck(
        case,
        result,
        outputs,
        own.values,
        tuple(places),
        (*notes, *_notes(result)),
        {label(o.target): _message(o) for o in result.outcomes if o.outputs is None},
        run.settings,
        own.envelopes(),
    )


def installed_compilers(plugins: Iterable[str | Path] = ()) -> list[str]:
    """The backends that are installed and compute what an ONNX model means: no optimiser, which
    is held against a level of its own, and no checker, which computes nothing.
    """
    registry = BackendRegistry.discover(known_plugins(plugins))
    classes = [registry.get(name) for name in registry.usable()]
    return [c.name for c in classes if c.reads == ONNX and not c.baseline and len(c.levels) > 1]


def _with_defaults(
    targets: Sequence[str | Target], plugins: Sequence[str | Path]
) -> list[str | Target]:
    """The targets, with the level DEFAULT of those that name no level.

    Raises: RegistryError, OptionError, TargetError.
    """
    registry, added = BackendRegistry.discover(known_plugins(plugins)), list[Target]()
    for wanted in targets:
        target = Target.parse(wanted) if isinstance(wanted, str) else wanted
        spec, parsed = required_backend(target, registry)
        if not parsed.level and registry.get(spec.name).given_away():
            added.append(replace(target, pipeline=",".join([DEFAULT, *sorted(target.options)])))
    return [*targets, *added]


def cases_to_check(
    model: str | Path | bytes | onnx.ModelProto,
    inputs: Inputs,
    seed: int,
    plugins: Sequence[str | Path],
    note: Callable[[str], object] = lambda text: None,
) -> tuple[Iterator[TestCase], str]:
    """Returns the test case of a model, and "". If nnfuzz can compute no output, or not know which
    inputs are valid, it returns cases to try one after the other, and the reason. These cases have
    neither a graph nor expected outputs; their inputs are the given ones, or guesses. note: see
    `model_proto`.

    Raises: ModelError, OSError.
    """
    from nnfuzz.testcase.foreign import checked_interface, in_calls
    from nnfuzz.testcase.foreign_inputs import guesses

    read, found = model_proto(model, note), list[TestCase]()
    try:
        found = [case_from_onnx(read, inputs, seed=seed, plugins=plugins)]
        if inputs is not None or OPAQUE not in found[0].graph.operators:
            return iter(found), ""
        why = "nodes without an operator spec may not take all numbers"
    except NoReference as error:
        why = str(error)
    data = read.SerializeToString()
    if problem := invalid(data, full=False):
        raise ModelError(f"it is not valid: {problem}")
    for own in each_call(inputs):
        declared, _ = checked_interface(data, own)
    versions = [entry.version for entry in read.opset_import if entry.domain in ("", "ai.onnx")]
    bare = TestCase(ForeignId(seed), NO_GRAPH, data, {}, {}, {}, DIRECT, max([1, *versions]))
    fed = guesses(declared, read, seed) if inputs is None else each_call(inputs)
    cases = (replace(bare, inputs=dict(arrays or {})) for arrays in fed)
    if len(each_call(inputs)) > 1:
        return iter([*found, in_calls([*cases], operator_registry(plugins))]), why
    return chain(found, cases), why


def parts_at(
    model: onnx.ModelProto, node: str, inputs: Mapping[str, np.ndarray] | None = None, seed: int = 0
) -> dict[str, tuple[onnx.ModelProto, dict[str, np.ndarray]]]:
    """Two parts of a model with their inputs: "up-to", which ends with a node, and "only", which is
    the node itself.

    node: its name, or that of a value that it computes. Raises: ModelError.
    """
    from nnfuzz.testcase.extraction import declared, extracted, single_node

    model = model_proto(model)
    found = [own for own in model.graph.node if node in (own.name, *own.output)]
    if not node or len(found) != 1:
        raise ModelError(f"{len(found)} nodes of the main graph have or compute the name {node!r}")
    case = next(cases_to_check(model, inputs, seed, ())[0])
    beginning = extracted(
        model, declared(case.inputs), names := list(filter(None, found[0].output))
    )
    own = {value.name: case.inputs[value.name] for value in beginning.graph.input}
    return {"up-to": (beginning, own), "only": single_node(model, case.inputs, names[0])}


def _that_runs(
    run: Experiment, first: TestCase, others: Iterator[TestCase], plugins: Sequence[str | Path]
) -> TestCase:
    """The case of a model that runs on most targets, with elements in outputs wherever it does; the
    first of them that no target refuses to execute. With a graph, if nnfuzz can compute the model
    for these inputs.
    """
    best, most = first, 0
    for case in chain([first], others):
        outcomes = run.once(case, judging=Judging.NEVER).outcomes
        if any(o.kind is OutcomeKind.TIMEOUT for o in outcomes):
            return case
        ran = [o.outputs.values() for o in outcomes if o.outputs is not None]
        if len(ran) > most and all(any(array.size for array in arrays) for arrays in ran):
            best, most = case, len(ran)
        if most and not any(o.outputs is None and o.stage is Stage.EXECUTE for o in outcomes):
            break
    with suppress(ModelError), one_thread():
        return case_from_onnx(best.model, best.inputs, plugins=plugins) if most else first
    return best


def _known(result: Result) -> bool:
    """Whether every output has a reference for at least the share ENOUGH of its elements."""
    from nnfuzz.backend.interface import read_interface

    shares = result.verdict.comparable.values() if result.verdict else ()
    outputs = set(read_interface(result.case.model)[1])
    return outputs <= result.case.expected.keys() and all(share >= ENOUGH for share in shares)


def _message(outcome: Outcome) -> str:
    whole = " ".join(f"{outcome.kind}: {outcome.message}".split())
    return whole if len(whole) <= MESSAGE else f"{whole[:MESSAGE]}..."


def _notes(result: Result) -> Iterable[str]:
    if (calls := len(result.case.fed)) > 1:
        yield f"note: one compiled program is called {calls} times; NAME_at1 is of the second call"
    shown = result.verdict.differences if result.verdict else ()
    for event in result.events:
        if event.kind in ("fault", "undefined") and event.message not in shown:
            yield f"note: {event.message}"
    for failure in result.flaky:
        done, tried = result.repeats[failure.signature.hash]
        yield f"note: flaky, {done} of {tried} times: {failure.signature.title}"


@dataclass
class _Examination:
    """Holds the results of targets against the envelopes of a case, and looks for the nodes at
    which failures begin.

    given: outputs that somebody else computed. exposed: the case with every value as an output,
    None if there is none. exposed_result: the
    targets' result for it; values: the same, as reports have it.
    """

    run: Experiment
    case: TestCase
    oracle: Oracle
    localise: bool
    watch: Callable[[str], None]
    given: Mapping[str, np.ndarray] = field(default_factory=dict)
    exposed: TestCase | None = None
    exposed_result: Result | None = None
    values: tuple[Output, ...] = ()
    _latest: tuple[TestCase, Enclosure] | None = None

    def look(self, known: bool) -> None:
        """Runs the case with every value as an output, if it can be written so.

        known: whether all outputs have a reference. If not, values without one are outputs, too.
        """
        from nnfuzz.testcase.foreign import with_values

        if self.case.graph:
            with suppress(ProducerError):
                self.exposed = self.run.exposed(self.case)
        if not known and isinstance(self.case.id, ForeignId):
            exposed = self.exposed or self.case
            self.exposed = replace(exposed, model=with_values(exposed.model))
        if self.exposed:
            self.watch("looking at every value")
            self.exposed_result = self.run(self.exposed)
            self.values = self.outputs(self.exposed_result, made=True)

    def hidden(self, result: Result) -> list[Finding]:
        """The wrong values of targets that run the model, and on which no output of it is wrong:
        later nodes hide them, whose own rounding may be as large."""
        known = {label(target) for failure in result.failures for target in failure.targets}
        known |= {label(o.target) for o in result.outcomes if o.outputs is None}
        return [
            finding
            for finding in (self.run.findings(self.exposed_result) if self.exposed_result else ())
            if finding.failure.kind is OutcomeKind.MISMATCH
            and known.isdisjoint(map(label, finding.failure.targets))
        ]

    def behind(
        self, plugins: Sequence[str | Path], reported: Sequence[Place]
    ) -> tuple[list[Place], list[str]]:
        """Judges nodes behind values that have no reference, or are compared loosely. Such a value
        becomes an input of a part of the model, as the first target computes it. Returns failures,
        and a note.

        reported: the places so far; accuracy that one of them gives away is not reported again.

        Entries of `values` are replaced where more of a value is compared now.
        """
        from nnfuzz.base.untrusted import parsed_model
        from nnfuzz.testcase.extraction import declared, extracted

        ran = self.exposed_result.outcomes if self.exposed_result else ()
        found = ((label(o.target), o.outputs) for o in ran if o.outputs is not None)
        who, computed = next(found, ("", {}))
        model, given = parsed_model(self.case.model), dict(self.case.inputs)
        reads = {name: node.input for node in model.graph.node for name in node.output}
        places, unknown_first = list[Place](), self._unknown()
        known = {place.targets for place in reported if place.given_away}
        for trial in range(ROUNDS):
            unknown, whole = self._unknown() - given.keys(), not trial and not self.case.graph
            loose = {v.name for v in self.values if v.judged < ENOUGH <= v.share}
            taken = set[str]()
            for name in () if whole else unknown.intersection(reads, computed):
                if unknown.isdisjoint(reads[name]):
                    read = computed.keys() & {*reads[name]} - given.keys()
                    # A value that is only loose can be judged closely once its operands are inputs.
                    taken |= read if read and name in loose else {name}
            given |= {name: computed[name] for name in taken}
            rest = [name for name in reads if name in unknown - taken][: None if whole else PART]
            if not rest or not (taken or whole):
                break
            try:
                part = extracted(model, declared(given), rest)
                used = {value.name: given[value.name] for value in part.graph.input}
                case = case_from_onnx(part, used, plugins=plugins)
            except ModelError:
                continue
            self.watch(f"looking behind {', '.join(sorted(taken)) or 'the inputs'}")
            own = _Examination(self.run, case, self.oracle, self.localise, self.watch)
            result = self.run(case)
            own.values = own.outputs(result, made=True)
            more = {value.name: value for value in own.values if value.judged >= ENOUGH}
            self.values = tuple(more.get(value.name, value) for value in self.values)
            before = f"what it reads is taken as {who} computes it"
            for finding in self.run.findings(result):
                targets = tuple(map(label, finding.failure.targets))
                if finding.failure.kind is OutcomeKind.MISMATCH and targets not in known:
                    places.append(replace(own.place(finding), before=before))
                    known.add(targets)
        judged = len(unknown_first) - len(self._unknown())
        note = (
            f"note: {judged} of {len(unknown_first)} values without a close reference are compared"
        )
        return places, [f"{note} given what {who} computes before them"] if judged else []

    def _unknown(self) -> set[str]:
        """The names of values of which too little has a reference, or a close one."""
        return {value.name for value in self.values if value.judged < ENOUGH}

    def place(self, finding: Finding, hidden: bool = False) -> Place:
        """The place of a failure, at the least optimised target that fails.

        hidden: whether it shows in the run with every value as an output alone.
        """
        failure = finding.failure
        by_design = isinstance(failure.signature.details, HabitDetails)
        if self.localise and not by_design:
            self.watch(f"looking for the cause: {failure.signature.title}")
            finding = self.run.localise(finding)
        localisation = finding.localisation or {}
        place = Place(
            finding,
            tuple(label(target) for target in failure.targets),
            accused=str(localisation.get("party", "")) or finding.blame.accused,
            passes=tuple(localisation.get("passes", ())),
            evidence=tuple(localisation.get("evidence", ())),
            hidden=hidden,
            given_away=by_design,
        )
        wrong: Mismatch | None
        fused = failure.kind is OutcomeKind.MISMATCH
        if fused and (first := self._first(place.targets[0])):
            value, wrong, before = first
        elif not (self.exposed and self.case.graph) or failure.kind is OutcomeKind.TIMEOUT:
            return place
        else:
            self.watch(f"looking for the node: {failure.signature.title}")
            if (last := self._last(failure)) is None:
                return place
            (value, wrong), before = last, FUSED if fused else ENDS
        operator, node = self._maker(value)
        return replace(place, value=value, operator=operator, node=node, wrong=wrong, before=before)

    def _first(self, target: str) -> tuple[str, Mismatch, str] | None:
        """The first wrong value of a target where every value is an output, and a sentence on the
        inputs of the node that computes it.
        """
        for own in self.values:
            computed = next(c for c in own.computed if c.target == target)
            if wrong := computed.wrong:
                read = self.case.graph.makers[own.name].inputs
                unsure = [v.name for v in self.values if v.name in read and v.share < 1]
                partly = f" as far as it can be compared, {', '.join(unsure)} in part"
                return own.name, wrong, f"what it reads is right{partly if unsure else ''}"
        return None

    def _last(self, failure: Failure) -> tuple[str, Mismatch | None] | None:
        """The value that ends the shortest beginning of the model that fails in the same way, and
        how it is wrong if it is; by bisection over the number of nodes.
        """
        fails = cache(lambda count: self._fails(failure, count))
        count = len(self.case.graph.nodes)
        if fails(count) is None:
            return None
        shortest = bisect_left(range(count), True, lo=1, key=lambda n: fails(n) is not None)
        return fails(shortest)

    def _fails(self, failure: Failure, count: int) -> tuple[str, Mismatch | None] | None:
        """The last value of a beginning of so many nodes, or its first wrong one, if it fails as
        the model does; None if it does not. What none of its nodes reads is an output.
        """
        from nnfuzz.testcase.extraction import beginning

        known = self.exposed.expected if self.exposed else None
        if (cut := beginning(self.case, count, known)) is None:
            return None
        ends = cut.graph.outputs
        mismatch = failure.kind is OutcomeKind.MISMATCH
        judging = Judging.ALWAYS if mismatch else Judging.NEVER
        done = self.run.once(cut, {failure.backend: failure.levels[:1]}, judging)
        (outcome,) = done.outcomes
        if not mismatch:
            same = (outcome.kind, outcome.stage) == (failure.kind, failure.stage)
            return (ends[-1], None) if same else None
        wrong = ((name, _against(done, outcome.target, name)[0]) for name in ends)
        return next(((name, own) for name, own in wrong if own), None)

    def outputs(self, result: Result, made: bool = False) -> tuple[Output, ...]:
        """The targets' results for the outputs of a result's case.

        made: with the nodes that compute them, and without the reasons why elements are not
        compared.
        """
        case = result.case
        bounds = self._enclosed(case).envelopes if case.graph else {}
        shares = {
            name: float(bounds[name].comparable.mean()) if bounds[name].ref.size else 1.0
            for name in (case.graph.outputs if case.graph else ())
        }
        names = [*shares, *self._unreached(shares, result)]
        asked = any(shares.get(name, 0) < ENOUGH for name in names)
        reference = self.run.reference(case) if asked else {}
        if made:
            order = {name: i for i, name in enumerate(self._makers)}
            names.sort(key=lambda name: order.get(_owner(case.in_model(name)), -1))
        return tuple(
            self._output(name, result, bounds.get(name), shares.get(name, 0.0), reference, made)
            for name in names
        )

    def _output(
        self,
        name: str,
        result: Result,
        bounds: Envelope | None,
        share: float,
        reference: Mapping[str, np.ndarray],
        made: bool,
    ) -> Output:
        """The targets' results for one output. share: of it that can be compared."""
        from nnfuzz.compare.contradiction import groups_that_agree
        from nnfuzz.compare.distance import looseness
        from nnfuzz.compare.losses import losses

        why: tuple[str, ...] = () if made else UNREACHED
        if bounds is not None and share < 1 and not made:
            lost = losses(self._enclosed(result.case), [name])[name]
            why = tuple(dict.fromkeys(f"{loss.why}, at {loss.value}" for loss in lost))
        others = {ARBITER: reference, GIVEN: self.given} if share < ENOUGH else {}
        voices = _voices(name, result, others)
        groups = tuple(map(tuple, groups_that_agree(voices, bounds)))
        agree = groups[0] if len(groups) == 1 and share < ENOUGH and _says(voices) else ()
        type_ = next(map(type_text, voices.values()), "of unknown type")
        return Output(
            name,
            type_ if bounds is None else f"{bounds.dtype.value}{list(bounds.ref.shape)}",
            share,
            why,
            tuple(self._computed(name, o, bounds, result, agree) for o in result.outcomes),
            groups if len(groups) > 1 else (),
            *(self._maker(name) if made else ("", "")),
            agree,
            looseness(bounds) if bounds is not None else 0.0,
            self._given(name, bounds),
        )

    def _given(self, name: str, bounds: Envelope | None) -> Computed | None:
        """How the given array of an output is wrong; None if it is not."""
        from nnfuzz.compare.distance import distance
        from nnfuzz.compare.verdict import mismatch

        array = self.given.get(name)
        if bounds is None or array is None or (wrong := mismatch(name, bounds, array)) is None:
            return None
        ulp, relative = distance(bounds, array)
        return Computed(GIVEN, OutputState.WRONG, wrong, ulp, relative=relative)

    def envelopes(self) -> Mapping[str, Envelope]:
        """Of the outputs of the model."""
        if not self.case.graph:
            return {}
        own = self._enclosed(self.case).envelopes
        return {name: own[name] for name in self.case.graph.outputs}

    def _enclosed(self, case: TestCase) -> Enclosure:
        """The envelopes of a case's outputs, of the exposed case's envelopes where both are made
        alike: computing them takes longest.
        """
        whole = self.exposed
        if (
            whole is None
            or not case.expected.keys() <= whole.expected.keys()
            or strange(whole.expected) != strange(case.expected)
        ):
            whole = case
        if self._latest is None or self._latest[0] is not whole:
            self._latest = whole, self.oracle.enclosure(whole)
        return self._latest[1]

    def _computed(
        self,
        name: str,
        outcome: Outcome,
        bounds: Envelope | None,
        result: Result,
        agree: Collection[str],
    ) -> Computed:
        from nnfuzz.compare.distance import distance

        who = label(outcome.target)
        if outcome.outputs is None:
            return Computed(who, _fate(outcome))
        given, ulp, relative = outcome.outputs.get(name), None, 0.0
        if bounds is not None and given is not None:
            ulp, relative = distance(bounds, given)
        wrong, contradiction = _against(result, outcome.target, name)
        if wrong:
            habits = _habits(result, outcome.target)
            state = OutputState.GIVEN_AWAY if habits else OutputState.WRONG
            return Computed(who, state, wrong, ulp, habits, relative)
        if contradiction:
            return Computed(who, OutputState.CONTRADICTED, said=str(contradiction))
        state = OutputState.RIGHT
        if who in agree:
            state = OutputState.AGREES
        elif bounds is None or (bounds.ref.size and not bounds.comparable.any()):
            state = OutputState.NOT_COMPARED
        return Computed(who, state, None, ulp, relative=relative)

    def _maker(self, value: str) -> tuple[str, str]:
        """The operator and the name of the node that computes a value, as in the model."""
        if known := self._makers.get(_owner(self.case.in_model(value))):
            return known
        return self.case.graph.makers[value].op, ""

    @cached_property
    def _makers(self) -> dict[str, tuple[str, str]]:
        """The operator and the name of each node of the model's main graph, by its outputs."""
        from nnfuzz.base.untrusted import parsed_model

        nodes = parsed_model(self.case.model).graph.node
        return {name: (node.op_type, node.name) for node in nodes for name in node.output if name}

    def _unreached(self, reached: Collection[str], result: Result) -> Iterator[str]:
        """The outputs that the reference does not compute, or their elements if they are no
        tensors.
        """
        from nnfuzz.backend.interface import read_interface

        given = dict.fromkeys(name for o in result.outcomes for name in o.outputs or ())
        owners = {_owner(name) for name in given}
        names = [n for n in read_interface(result.case.model)[1] if n not in owners]
        return (n for n in (*given, *names) if n not in reached and n not in self.case.inputs)


def _owner(name: str) -> str:
    """The output of the model that has an array of this name as an element, or is it itself (see
    nnfuzz.base.packed_values.elements).
    """
    return re.sub(r"^(?:len|keys)\((.*)\)$", r"\1", name).partition("[")[0]


def _fate(outcome: Outcome) -> str:
    if outcome.kind is OutcomeKind.OK:
        return "built, and not run"
    unsupported = outcome.kind is OutcomeKind.UNSUPPORTED
    return f"{'not supported' if unsupported else outcome.kind} in {outcome.stage}"


def _voices(
    name: str, result: Result, others: Mapping[str, Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """What targets make of an output, with PyTorch where one is wrong or contradicted, and with
    others, such as onnx.reference, whose dtypes do not count.
    """
    ran = {label(o.target): o.outputs for o in result.outcomes if o.outputs is not None}
    arrays = {target: outputs[name] for target, outputs in ran.items() if name in outputs}
    if any(any(_against(result, o.target, name)) for o in result.outcomes):
        arrays["PyTorch"] = result.case.expected[name]
    dtype = next((array.dtype for array in arrays.values()), None)
    return arrays | {
        who: outputs[name].astype(str if dtype.kind == "U" else dtype)
        for who, outputs in others.items()
        if name in outputs and dtype is not None
    }


def _says(arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether there are several arrays, and not only NaN in them."""
    first = next(iter(arrays.values()), np.zeros(0))
    floats = first.size and first.dtype.kind != "U" and is_floating(first)
    blank = floats and np.isnan(plain(first)).all()
    return len(arrays) > 1 and not blank


def _habits(result: Result, target: Target) -> str:
    """How a target gives accuracy away by its defaults or its interface; "" if it does not."""
    explained = result.verdict.explained.get(target, ()) if result.verdict else ()
    interface = "accuracy given away by its interface: "
    return "; ".join(f"{'' if own.dtype == BY_DEFAULT else interface}{own}" for own in explained)


def _against(
    result: Result, target: Target, output: str
) -> tuple[Mismatch | None, Contradiction | None]:
    """How an output of a target is wrong, and how nnfuzz and onnx.reference differ where the target
    agrees with the latter; None for what does not hold.
    """
    if result.verdict is None:
        return None, None
    mismatches = result.verdict.mismatches.get(target, ())
    contradictions = result.verdict.contradictions.get(target, ())
    wrong = next((own for own in mismatches if own.output == output), None)
    return wrong, next((own for own in contradictions if own.output == output), None)
