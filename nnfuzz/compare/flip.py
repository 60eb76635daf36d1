"""Blame by a flip: the simplest pair of targets, one right and one wrong, that differ in one
coordinate.

A coordinate is a part of a target: compiler, release, device, pipeline (optimisation level) or form
of the model. If a compiler is right at O0 and wrong at O3, its optimiser is accused; if it is wrong
on CUDA alone, the code for CUDA.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import (
    DIRECT,
    EXPORTED,
    MODULE,
    Target,
    base_form,
    differing,
    is_rewritten,
    levels_of,
    minimal,
    simpler,
)
from nnfuzz.materialize.opsets import once

PYTORCH = Target("pytorch")
"""Native PyTorch, which computes the graph itself and is compared with the envelope as well."""
WITNESSES = 2
"""Number of other compilers that must be wrong too before the reference is accused."""


class State(IntEnum):
    """The state of a target: failed at a stage, wrong, not supported, built but not run, or right.

    A greater state is better; an unsupported target is no evidence about the fault.
    """

    EXPORT = 0
    TRANSFORM = 1
    IMPORT = 2
    COMPILE = 3
    EXECUTE = 4
    WRONG = 5
    UNSUPPORTED = 6
    BUILT = 7
    RIGHT = 8

    @property
    def failed(self) -> bool:
        return self < State.UNSUPPORTED


class Coordinate(StrEnum):
    """The accused coordinate, in which the two targets of a flip differ."""

    NONE = "none"
    FORM = "form"
    COMPILER = "compiler"
    RELEASE = "release"
    DEVICE = "device"
    PIPELINE = "pipeline"
    REFERENCE = "reference"
    CALLS = "calls"


_PREFERRED = (Coordinate.PIPELINE, Coordinate.DEVICE, Coordinate.RELEASE, Coordinate.FORM)


@dataclass(frozen=True)
class Blame:
    """The accused coordinate, the flip that accuses it, and a sentence with the evidence.

    right: the right target, if there is one. wrong: the simplest wrong target.
    """

    coordinate: Coordinate = Coordinate.NONE
    right: Target | None = None
    wrong: Target | None = None
    evidence: str = ""

    @property
    def accused(self) -> str:
        """The accused component in words, such as "optimiser"; "" if there is none."""
        wrong = self.wrong or Target()
        return {
            Coordinate.NONE: "",
            Coordinate.FORM: "exporter",
            Coordinate.COMPILER: f"importer of {wrong.form}"
            if self.importer
            else "importer or kernel",
            Coordinate.RELEASE: f"release {wrong.release}",
            Coordinate.DEVICE: f"code for {wrong.device}",
            Coordinate.PIPELINE: "optimiser",
            Coordinate.REFERENCE: "reference",
            Coordinate.CALLS: "state between calls",
        }[self.coordinate]

    @property
    def importer(self) -> bool:
        """Whether the importer is accused: another form of the same graph is compiled correctly."""
        return (
            self.coordinate is Coordinate.COMPILER
            and self.right is not None
            and not is_rewritten(self.wrong.form if self.wrong else "")
            and differing(self.right, self.wrong or Target()) == ("form",)
        )


NOBODY = Blame()


def right_release(failing: Collection[Target], states: Mapping[Target, State]) -> str:
    """Another release of the compiler on which all failing targets are right; "" if there is none.

    failing: targets of one release. states: of all targets that computed the model.
    """
    others = sorted({target.release for target in states} - {t.release for t in failing})
    for release in others:
        elsewhere = [states.get(replace(target, release=release)) for target in failing]
        if all(state is State.RIGHT for state in elsewhere):
            return release
    return ""


def state_of(outcome: Outcome) -> State:
    """The state of an outcome's target."""
    if outcome.kind is OutcomeKind.MISMATCH:
        return State.WRONG
    if outcome.kind in (OutcomeKind.UNSUPPORTED, OutcomeKind.NOT_COMPARED):
        return State.UNSUPPORTED
    if outcome.kind is OutcomeKind.REFUSED:
        return State.RIGHT
    if outcome.ok:  # a target that was only built computed no values
        return State.RIGHT if outcome.stage is Stage.EXECUTE else State.BUILT
    return State[Stage(outcome.stage).name]


def blame(
    states: Mapping[Target, State],
    compiler: str,
    failing: Collection[Target] = (),
    levels: Sequence[str] = (),
) -> Blame:
    """Finds the coordinate that makes targets of a compiler fail.

    states: of all targets that computed the model, other compilers, PyTorch and arbiters included.
    failing: the targets to explain; default: all failing targets of the compiler. levels: the
    compiler's levels, least optimised first; default: taken from `states`.

    The simplest failing targets are compared with better ones that differ in one coordinate; right
    targets are preferred to targets that fail later. An optimiser is accused only by a simpler
    pipeline, an exporter only if no other compiler is right on its model.
    """
    mine = [target for target in states if target.compiler == compiler]
    bad = [t for t in mine if states[t].failed and (not failing or t in failing)]
    if not bad:
        return Blame(evidence=f"no target of {compiler} fails")
    levels = levels or levels_of(mine)
    least = minimal(bad, levels)
    for coordinate, right, wrong in _flips(states, mine, least, levels):
        if coordinate is not Coordinate.FORM:
            return Blame(coordinate, right, wrong, _sentence(right, wrong, states))
        return _form(states, right, wrong)
    return _compiler(states, min(least, key=str), len(bad), len(mine))


def _flips(
    states: Mapping[Target, State],
    mine: Sequence[Target],
    least: Sequence[Target],
    levels: Sequence[str],
) -> Iterator[tuple[Coordinate, Target, Target]]:
    """All flips at the simplest failing targets, strongest evidence first."""
    witnesses = sorted((t for t in mine if states[t] is not State.UNSUPPORTED), key=str)
    for enough in (State.RIGHT, State.EXPORT):
        for coordinate in _PREFERRED:
            for wrong in sorted(least, key=str):  # independent of the order of the runs
                for right in witnesses:
                    better = states[right] >= enough and states[right] > states[wrong]
                    if better and _isolates(coordinate, right, wrong, levels):
                        yield coordinate, right, wrong


def _isolates(coordinate: Coordinate, right: Target, wrong: Target, levels: Sequence[str]) -> bool:
    if differing(right, wrong) != (coordinate.value,):
        return False
    # A level that is right because it removed the faulty node does not accuse the optimiser.
    return coordinate is not Coordinate.PIPELINE or simpler(right, wrong, levels)


def _form(states: Mapping[Target, State], right: Target, wrong: Target) -> Blame:
    """Blames the exporter, or the compiler if nnfuzz wrote the form or others read it right."""
    sentence = _sentence(right, wrong, states)
    other = _other(states, wrong)
    if other is not None:
        evidence = f"{sentence}; {other} is right on the same form"
        return Blame(Coordinate.COMPILER, other, wrong, evidence)
    # A form that nnfuzz itself writes is trusted, rewritten or not.
    if once(base_form(wrong.form)) in (DIRECT, MODULE, EXPORTED):
        return Blame(Coordinate.COMPILER, right, wrong, sentence)
    return Blame(Coordinate.FORM, right, wrong, sentence)


def _compiler(states: Mapping[Target, State], wrong: Target, bad: int, ran: int) -> Blame:
    """The blame if no coordinate isolates the fault: the compiler, or the reference if enough other
    compilers leave the envelope too."""
    counted = f"{bad} of {ran} targets of {wrong.compiler} fail"
    votes = _votes(states, wrong)
    against = [name for name, state in votes.items() if state is State.WRONG]
    agree = [name for name, state in votes.items() if state is State.RIGHT]
    if states[wrong] is State.WRONG and len(against) >= WITNESSES and not agree:
        evidence = f"{wrong.compiler}, {' and '.join(against)} all leave the envelope"
        return Blame(Coordinate.REFERENCE, None, wrong, evidence)
    counted += "".join(f"; {name} agrees" for name in agree)
    counted += "".join(f"; {name} is off" for name in against)
    return Blame(Coordinate.COMPILER, _other(states, wrong), wrong, counted)


def _other(states: Mapping[Target, State], wrong: Target) -> Target | None:
    """A target of another compiler, or onnx.reference, that is right on the same form."""
    return next(
        (
            target
            for target, state in states.items()
            if target.compiler != wrong.compiler
            and target.form == wrong.form
            and target != PYTORCH
            and state is State.RIGHT
        ),
        None,
    )


def _votes(states: Mapping[Target, State], wrong: Target) -> dict[str, State]:
    """The best state of every other compiler on the same form, and of PyTorch."""
    votes: dict[str, State] = {}
    for target, state in states.items():
        same_form = target == PYTORCH or target.form == wrong.form
        if same_form and target.compiler != wrong.compiler:
            votes[target.compiler] = max(state, votes.get(target.compiler, state))
    return votes


def _sentence(right: Target, wrong: Target, states: Mapping[Target, State]) -> str:
    """The flip as a sentence with the values of the coordinate in which the two targets differ."""
    (name,) = differing(right, wrong)
    good, bad = (getattr(target, name) or "none" for target in (right, wrong))
    return f"{wrong.compiler} {_does(states[right])} at {good} and {_does(states[wrong])} at {bad}"


def _does(state: State) -> str:
    if state.failed:
        return "is wrong" if state is State.WRONG else f"fails in {state.name.lower()}"
    return "is right" if state is State.RIGHT else "builds the model"
