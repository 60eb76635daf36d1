"""The result of checking a model: per output, per node and per failure, as text and as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.target import CPU, Target
from nnfuzz.base.reading import JsonObject
from nnfuzz.base.writing import UNWRITTEN, as_json, fields_as_json
from nnfuzz.compare.mismatch import ENOUGH, Mismatch, Number
from nnfuzz.experiment.result import Result
from nnfuzz.findings.drawing import drawing
from nnfuzz.findings.heat import heat_maps
from nnfuzz.findings.text import environment
from nnfuzz.library.experiment import save_finding
from nnfuzz.records.finding import Finding
from nnfuzz.testcase.case import TestCase

if TYPE_CHECKING:
    from nnfuzz.compare.envelope import Envelope

ARBITER, GIVEN = "onnx.reference", "the given outputs"
SCHEMA = 1
"""The version of the JSON form."""
MOST_ULP = 1e6
"""Beyond so many units in the last place, a distance is written as a relative error."""


def label(target: Target) -> str:
    """A target for people: the compiler, its device if that is not the CPU, and the pipeline."""
    parts = (target.compiler, "" if target.device == CPU else target.device, target.pipeline)
    return " ".join(filter(None, parts))


def type_text(array: np.ndarray) -> str:
    """The type of an array for people, as in "string[2]"."""
    return f"{'string' if array.dtype.kind == 'U' else array.dtype}{list(array.shape)}"


class OutputState(StrEnum):
    """The state of an output on a target; the others are kinds of outcomes, of the whole model."""

    RIGHT = "right"
    AGREES = "agrees"
    WRONG = "wrong"
    GIVEN_AWAY = "given away"
    NOT_COMPARED = "not compared"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True)
class Computed:
    """The result of one target for one output.

    state: an OutputState, or the kind of outcome and its stage where the model did not run. wrong:
    how the output differs; None where it does not. ulp: the largest distance of a comparable
    element from the reference, in units in the last place of the largest element; None without
    outputs. relative: the same distance as a part of the largest element. said: if the state is
    CONTRADICTED, how onnx.reference differs from nnfuzz; if it is GIVEN_AWAY, the default or the
    interface that gives accuracy away.
    """

    target: str
    state: str
    wrong: Mismatch | None = None
    ulp: float | None = None
    said: str = ""
    relative: float = 0.0

    def __str__(self) -> str:
        text = self.state
        if self.state == OutputState.CONTRADICTED:
            text = self.said
        elif self.wrong:
            text = f"WRONG: {self.wrong}{_off(self.wrong)}"
            if self.state == OutputState.GIVEN_AWAY:
                far = f", up to {self.relative:.2g} of the largest element" * bool(self.relative)
                text = f"{self.said}{far}: {self.wrong}"
        elif self.state == OutputState.RIGHT and self.ulp:
            text = f"right, {_distance(self.ulp, f'{self.relative:.2g} (relative)')} at most"
        return text


def _off(wrong: Mismatch) -> str:
    """How far outside the worst element is."""
    worst = wrong.worst
    if worst is None or not isinstance(worst.excess, float) or worst.excess <= 0:
        return ""
    numbers = worst.actual, worst.expected
    actual, expected = (n if isinstance(n, float) else float("nan") for n in numbers)
    off = abs(actual - expected)
    far = f"{off / abs(expected):.2g} (relative)" if expected else f"{off:.2g} (absolute)"
    return f", the worst {_distance(worst.excess, far)} outside"


def _distance(ulp: float, far: str) -> str:
    """Units in the last place; `far` where these are too many to mean anything."""
    return far if ulp > MOST_ULP else f"{_brief(ulp)} units in the last place"


def _brief(number: Number) -> str:
    return f"{number:.2g}" if isinstance(number, float) and number < 100 else f"{number:,.0f}"


@dataclass(frozen=True)
class Output:
    """One output, or the value that one node computes.

    share: of its elements that can be compared. why: the reasons why not the rest. computed: of
    every target. groups: names of targets that agree with each other, the largest group first; ()
    where all agree. operator, node: what computes it; empty where the model does not name it.
    agree: who agrees, onnx.reference included, where less than `ENOUGH` can be compared. loose: the
    share of the compared elements that are compared loosely. given: how what somebody else computed
    is wrong; None if it is not.
    """

    name: str
    type: str
    share: float
    why: tuple[str, ...] = ()
    computed: tuple[Computed, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    operator: str = ""
    node: str = ""
    agree: tuple[str, ...] = ()
    loose: float = 0.0
    given: Computed | None = None

    @property
    def wrong(self) -> tuple[str, ...]:
        """The targets that are wrong."""
        return tuple(c.target for c in self.computed if c.state == OutputState.WRONG)

    @property
    def judged(self) -> float:
        """The share of its elements that are compared, and not loosely."""
        return self.share * (1 - self.loose)

    @property
    def differs(self) -> bool:
        """Whether targets differ where no reference says which of them are right."""
        return self.differs_beyond(())

    def differs_beyond(self, known: Collection[str]) -> bool:
        """The same, without groups in which there are known targets alone."""
        groups = [group for group in self.groups if not {*group} <= {*known}]
        return len(groups) > 1 and not (self.contradicted or any(c.wrong for c in self.computed))

    @property
    def contradicted(self) -> bool:
        """Whether onnx.reference contradicts nnfuzz, so that it is not known who is right."""
        return any(c.state == OutputState.CONTRADICTED for c in self.computed)

    @property
    def coverage(self) -> str:
        """How much is compared, and why not the rest."""
        if self.share >= 1:
            return f"all of it compared{f', {self.loose:.0%} loosely' if self.loose else ''}"
        why = f" ({'; '.join(self.why)})" if self.why else ""
        if self.agree:
            others = [who for who in (GIVEN, ARBITER) if who in self.agree]
            asked = "".join(f" and {who}" for who in others)
            count = len(self.agree) - len(others)
            why += f"; {count} target{'s' * (count > 1)}{asked} agree, and nobody knows the truth"
        return f"{self.shown_share} compared{why}" if self.share else f"without reference{why}"

    @property
    def shown_share(self) -> str:
        """The compared share in whole per cent, rounded down."""
        return "less than 1 %" if 0 < self.share < 0.01 else f"{int(100 * self.share)} %"

    @property
    def maker(self) -> str:
        """The node that computes it, for people."""
        return f"node {self.node!r} ({self.operator})" if self.node else self.operator

    @property
    def by_text(self) -> list[tuple[str, list[str]]]:
        """What holds of targets, with all targets of which it holds."""
        given = [self.given] if self.given else []
        return by_text((own.target, str(own)) for own in (*self.computed, *given))


def by_text(rows: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Of pairs of a target and a text: each text once, with all of its targets."""
    targets_of: dict[str, list[str]] = {}
    for target, text in rows:
        targets_of.setdefault(text, []).append(target)
    return list(targets_of.items())


@dataclass(frozen=True)
class Place:
    """Where a failure comes from.

    value, operator, node: the first wrong value, and what computes it; "" where no value is wrong
    or it is unknown where an error begins. wrong: how the value differs. before: a sentence on the
    values that the node reads. hidden: whether no output of the model is wrong, because later nodes
    hide it. given_away: whether it is accuracy that the compiler gives away by default or by its
    interface. accused, passes, evidence: of nnfuzz.experiment.localise.Localisation. finding: with
    all of this. folder: where it was saved; "" if it was not.
    """

    finding: Finding = field(metadata=UNWRITTEN)
    targets: tuple[str, ...]
    value: str = ""
    operator: str = ""
    node: str = ""
    wrong: Mismatch | None = None
    before: str = ""
    hidden: bool = False
    given_away: bool = False
    accused: str = ""
    passes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    folder: str = ""

    @property
    def maker(self) -> str:
        """The node that computes the first wrong value, for people."""
        return f"node {self.node!r} ({self.operator})" if self.node else self.operator

    @property
    def mismatch(self) -> bool:
        """Whether a value is wrong; else the model is not built, or does not run."""
        return self.finding.failure.kind is OutcomeKind.MISMATCH

    @property
    def reasons(self) -> list[str]:
        """The evidence, without what the place says already."""
        first = f"the first wrong one is {self.value}," if self.value else "nothing"
        return [sentence for sentence in self.evidence if first not in sentence]


@dataclass(frozen=True, eq=False, repr=False)
class ModelCheck:
    """The results of compilers for a model; str() is for people.

    case: the model with its inputs. result: of the experiment. outputs: of the model; those that
    the reference does not reach have a share of 0. values: of every node in topological order, if
    they were looked at. places: one per failure. notes: what else should be known, one line each.
    """

    case: TestCase
    result: Result
    outputs: tuple[Output, ...]
    values: tuple[Output, ...] = ()
    places: tuple[Place, ...] = ()
    notes: tuple[str, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)
    """By target: its message where the model did not run."""
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By compiler: what its adapter sets; see nnfuzz.backend.contract.Backend.overrides."""
    envelopes: Mapping[str, Envelope] = field(default_factory=dict)
    """By output of the model that has a reference."""

    @property
    def failed(self) -> bool:
        """Whether a target is wrong or fails."""
        wrong = any(not place.given_away for place in self.places)
        return bool(wrong or self.result.flaky)

    @property
    def given_away(self) -> tuple[str, ...]:
        """The targets on which accuracy is given away and nothing is wrong."""
        wrong = {target for p in self.places if not p.given_away for target in p.targets}
        away = [target for p in self.places if p.given_away for target in p.targets]
        return tuple(target for target in dict.fromkeys(away) if target not in wrong)

    @property
    def contradicted(self) -> tuple[str, ...]:
        """The outputs on which nnfuzz and onnx.reference differ: a fault of nnfuzz until shown
        otherwise, and no failure of the targets that agree with onnx.reference.
        """
        return tuple(output.name for output in self.outputs if output.contradicted)

    @property
    def compared(self) -> bool:
        """Whether some target ran, and of every output at least `ENOUGH` was compared, or all
        agree on it.
        """
        ran = any(o.outputs is not None for o in self.result.outcomes)
        enough = all(output.share >= ENOUGH or output.agree for output in self.outputs)
        return ran and enough and not self.contradicted

    @property
    def ok(self) -> bool:
        """Whether everything was compared and is right, or all agree."""
        return self.compared and not (self.failed or self.given_away)

    def summary(self) -> str:
        """One line."""
        targets = {own.target for output in self.outputs for own in output.computed}
        own = [p for p in self.places if not p.given_away]
        bad = {target for p in own for target in p.targets}
        idle = self.errors.keys() - bad
        total = len(targets)
        parts = [f"{len(bad)} of {total} targets fail"] if bad else []
        parts += [f"{len(idle)} of {total} targets do not run it"] if idle else []
        away = self.given_away
        parts += [f"{', '.join(away)}: accuracy given away, and not wrong"] if away else []
        differing = ", ".join(o.name for o in self.outputs if o.differs_beyond(away))
        odd = [v for v in self.values if v.differs_beyond(away)]
        odd.sort(key=lambda v: len([group for group in v.groups if {*group} - {ARBITER}]) < 2)
        first = f"first at {odd[0].maker}" if odd else ""
        if differing:
            parts.append(f"targets differ on {differing}{', ' * bool(first)}{first}")
        elif first and not bad:
            parts.append(f"inside of the model, targets or onnx.reference differ, {first}")
        few = [output for output in self.outputs if output.share < ENOUGH]
        for text, names in by_text((output.name, output.coverage) for output in few):
            parts.append(f"{', '.join(names)} {'are' if len(names) > 1 else 'is'} {text}")
        if contradicted := ", ".join(self.contradicted):
            parts.append(f"nnfuzz and onnx.reference differ on {contradicted}, a fault of nnfuzz")
        parts = parts or [f"all outputs on all {total} targets"]
        given = ", ".join(output.name for output in self.outputs if output.given)
        parts += [f"{GIVEN} {given} are wrong"] if given else []
        loose = ", ".join(output.name for output in self.outputs if output.loose > 1 - ENOUGH)
        parts += [f"{loose} compared loosely"] if loose else []
        return f"{self.verdict}: {'; '.join(parts)}"

    @property
    def verdict(self) -> str:
        """The first word of the summary."""
        if self.failed or self.given_away:
            wrong = [p for p in self.places if p.mismatch and not p.given_away]
            runs = wrong or self.result.flaky
            return ("WRONG" if runs else "FAILS") if self.failed else "GIVEN AWAY"
        if not self.compared:
            differ = any(output.differs for output in self.outputs)
            return "differ" if differ else "not compared"
        return "agree" if any(output.agree for output in self.outputs) else "right"

    def text(self, nodes: bool = False) -> str:
        """The report. nodes: with what every target makes of every node."""
        template = environment().get_template("check.txt.jinja")
        states = {v.name: _states(v, self.errors) for v in self.values} if nodes else {}
        errors = by_text(self.errors.items())
        given = {"nodes": nodes, "states": states, "errors": errors, "type_text": type_text}
        return template.render(check=self, **given).rstrip()

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """One table for notebooks: how each target computes each output."""
        return environment(html=True).get_template("check_table.html.jinja").render(check=self)

    def html(self) -> str:
        """A page for people: the table, the graph with the first wrong node marked, heat maps of
        the worst output, and the whole report.
        """
        first = next((place.value for place in self.places if place.value), "")
        worst = self._worst()
        template = environment(html=True).get_template("check.html.jinja")
        return template.render(
            check=self,
            drawing=drawing(self.case.graph, first),
            first=first,
            worst=worst,
            heat=self._heat(*worst) if worst else None,
            report=self.text(nodes=True),
        )

    def _worst(self) -> tuple[Output, Computed] | None:
        """The output and the target that are furthest off; wrong before accuracy given away."""
        off = [(o, c) for o in self.outputs for c in o.computed if c.wrong and c.wrong.worst]
        return max(
            off, key=lambda own: (own[1].state == OutputState.WRONG, own[1].relative), default=None
        )

    def _heat(self, output: Output, computed: Computed) -> str | None:
        from nnfuzz.compare.verdict import excess_of

        ran = {label(o.target): o.outputs or {} for o in self.result.outcomes}
        own, actual = self.envelopes[output.name], ran[computed.target][output.name]
        return heat_maps(own.ref, actual, excess_of(own, actual), own.comparable)

    def to_json(self) -> JsonObject:
        """Everything but the arrays, as values that JSON has."""
        return {
            "schema": SCHEMA,
            "ok": self.ok,
            "failed": self.failed,
            "given_away": list(self.given_away),
            "compared": self.compared,
            "summary": self.summary(),
            "inputs": {n: [str(a.dtype), list(a.shape)] for n, a in self.case.inputs.items()},
            "settings": as_json(self.settings),
            "targets": as_json(self.result.outcomes),
            "outputs": as_json(self.outputs),
            "nodes": as_json(self.values),
            "failures": [
                {**fields_as_json(own), "signature": as_json(own.finding.signature)}
                for own in self.places
            ],
            "notes": list(self.notes),
        }

    def save(self, folder: str | Path) -> ModelCheck:
        """Writes every failure as a finding's folder inside of `folder`; returns the same check
        with their paths. Raises: OSError.
        """
        saved = [replace(p, folder=str(save_finding(p.finding, folder))) for p in self.places]
        return replace(self, places=tuple(saved))


def _states(value: Output, idle: Collection[str]) -> str:
    """The states of all targets but idle ones on a node, grouped by state."""
    states = by_text(
        (own.target, "WRONG" if own.state == OutputState.WRONG else own.state)
        for own in value.computed
        if own.target not in idle
    )
    if len(states) == 1:
        return states[0][0]
    return "; ".join(f"{state}: {', '.join(targets)}" for state, targets in states)
