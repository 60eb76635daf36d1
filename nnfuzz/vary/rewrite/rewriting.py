"""All rewrite rules by name, and models rewritten by several steps, random or given.

A step is a rule and a number. The name of a form, such as "direct+times_one#5+function#12", states
which exporter wrote a model and which steps followed, so that the model can be made again from the
graph, the weights and the name.

The result depends on the model and the steps only. The number is the seed of the place and of
everything else that the rule draws, so a step keeps its meaning if other steps are removed or the
model changes. In half of the random sequences, each step after the first applies where the step
before has changed something, so that rules act on each other's results.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx

from nnfuzz.vary.rewrite import control, data, operators, spelling
from nnfuzz.vary.rewrite.draft import Draft, Kind, Region, Rule

if TYPE_CHECKING:
    from nnfuzz.ir.graph import Graph
    from nnfuzz.materialize.exporters import Exporter
    from nnfuzz.materialize.module import Array

_ALL = (
    *(control.RULES + data.RULES),
    *(operators.RULES + spelling.RULES),
)
RULES: Mapping[str, Rule] = {rule.name: rule for rule in _ALL}
assert len(RULES) == len(_ALL), "two rewrites have the same name"
USUAL = (Kind.REWRITE, Kind.SPELLING, Kind.FORM)
"""Kinds of rules that keep the model's inputs and outputs, and keep it in one file."""
WRITTEN = frozenset(rule.name for rule in _ALL if rule.kind in (Kind.FORM, Kind.ENDS)).difference(
    (data.operand_as_input.name, data.overridable_input.name, data.typed_data.name)
)
"""Rules that change how a file holds a model, and neither what it computes from which constants,
nor how these are read, which depends on their dtypes."""
FEATURES: Mapping[str, str] = {
    control.FUNCTIONS: control.function.name,
    "If": control.if_constant.name,
    "Loop": control.loop_once.name,
    "Scan": control.scan_once.name,
    operators.EMPTY: operators.joined_with_nothing.name,
    data.EXTERNAL_FAMILY: data.external_data.name,
    data.GIVEN: data.operand_as_input.name,
    **{rule.family: rule.name for rule in spelling.RULES if rule.family.startswith("string")},
}
"""Features that some compilers do not support -> a rule that adds the feature to a model."""

MOST_STEPS = 8
MOST_BYTES = 1 << 23
"""Bytes of the largest model that is rewritten; each step reads the whole model."""
_NUMBERS = 1000
_SELDOM_FIRST = 0.3
_COMPOSED = 0.5
_NEAR, _SEPARATOR = "@", "+"


def of_kinds(*kinds: Kind) -> tuple[str, ...]:
    """Names of the rules of the given kinds."""
    return tuple(rule.name for rule in RULES.values() if rule.kind in kinds)


def needs(rule: Rule, feature: str) -> bool:
    """Whether a rule adds a feature (an operator, or one of FEATURES) to a model."""
    return feature in (rule.family, *rule.uses)


def named(name: str) -> Rule:
    """The rule of a name. Raises: KeyError that lists the known rules."""
    if name not in RULES:
        raise KeyError(f"unknown rewrite {name!r}; known: {', '.join(sorted(RULES))}")
    return RULES[name]


@dataclass(frozen=True)
class Step:
    """One application of a rule, written RULE#NUMBER, or RULE#NUMBER@ if `near` is set.

    near: whether places that the step before has changed are preferred.
    """

    rule: str
    number: int = 0
    near: bool = False

    @classmethod
    def parse(cls, text: str) -> Step:
        """Parses a step. Raises: ValueError; KeyError for an unknown rule."""
        name, _, number = text.removesuffix(_NEAR).partition("#")
        return cls(named(name).name, int(number or 0), text.endswith(_NEAR))

    def __str__(self) -> str:
        return f"{self.rule}#{self.number}{_NEAR if self.near else ''}"


def rewritten(model: bytes, steps: Iterable[Step]) -> tuple[bytes, tuple[Step, ...]]:
    """The rewritten model, and those of the steps that applied somewhere.

    Raises: KeyError for an unknown rule.
    """
    draft = Draft(onnx.load_model_from_string(model))
    done = tuple(step for step in steps if _applied(draft, step))
    return (_serialised(draft), done) if done else (model, ())


def draw_rewriting(
    model: bytes, rng: random.Random, rules: Sequence[str] = (), most: int = MOST_STEPS
) -> tuple[bytes, tuple[Step, ...]]:
    """The model after 1 to `most` random steps, and the steps. rules: names, by default USUAL."""
    if len(model) > MOST_BYTES:
        return model, ()
    draft, done = Draft(onnx.load_model_from_string(model)), list[Step]()
    names = [*(rules or of_kinds(*USUAL))]
    composed = rng.random() < _COMPOSED
    for _ in range(rng.randint(1, most)):
        step = _next(draft, names, rng, composed and bool(done))
        if step is not None and _applied(draft, step):
            done.append(step)
    return (_serialised(draft), tuple(done)) if done and _is_valid(draft) else (model, ())


def _is_valid(draft: Draft) -> bool:
    """Whether ONNX infers all types: it gives up on some operators in a body, such as Attention."""
    try:
        onnx.shape_inference.infer_shapes(draft.model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


def _next(draft: Draft, names: Sequence[str], rng: random.Random, near: bool) -> Step | None:
    """A random step that is applied to the draft; None if no rule applies.

    Rules for certain operators seldom apply, so they are sometimes tried first.
    """
    order = rng.sample(names, len(names))
    if rng.random() < _SELDOM_FIRST:
        order.sort(key=lambda name: RULES[name].family != operators.ALGEBRA)
    for name in order:
        if _sites(draft, RULES[name], near):
            return Step(name, rng.randrange(_NUMBERS), near)
    return None


def _sites(draft: Draft, rule: Rule, near: bool = False) -> Sequence[Any]:
    """Places where a rule applies. near: only those that the last step has changed."""
    if draft.stale:
        draft.learn()
    sites = rule.sites(draft)
    return [s for s in sites if draft.changed & _names(draft, s)] if near else sites


def _names(draft: Draft, site: object) -> set[str]:
    """Names of the values at a site (a place where a rule applies)."""
    if isinstance(site, tuple):
        return set().union(*(_names(draft, part) for part in site))
    if isinstance(site, Region):
        return {*site.inputs, *site.outputs}
    if isinstance(site, int) and site < len(draft.graph.node):
        return {*draft.graph.node[site].input, *draft.graph.node[site].output}
    return {str(site)}


def _applied(draft: Draft, step: Step) -> bool:
    """Apply a step; returns whether it applied."""
    rule, rng = named(step.rule), random.Random(f"{step.rule}#{step.number}")
    sites = (step.near and _sites(draft, rule, near=True)) or _sites(draft, rule)
    if sites:
        chosen = min(sites, key=lambda site: _rank(draft, step, site))
        rule.apply(draft, chosen, rng)
        draft.stale = True
    return bool(sites)


def _rank(draft: Draft, step: Step, site: object) -> tuple[int, str]:
    """Sort key of a site, of which the least is used; it is the same in a smaller model."""
    text = _written(draft, site)
    return zlib.crc32(f"{step} {text}".encode()), text


def _written(draft: Draft, site: object) -> str:
    """A site as text: names of its values, which do not depend on positions."""
    if isinstance(site, tuple):
        return " ".join(_written(draft, part) for part in site)
    if isinstance(site, Region):
        return f"{site.stop - site.start} {' '.join(site.outputs)}"
    if isinstance(site, int) and site < len(draft.graph.node):
        return " ".join(draft.graph.node[site].output)
    return str(site)


def _serialised(draft: Draft) -> bytes:
    draft.forget()
    return draft.model.SerializeToString(deterministic=True)


# -- forms ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """A model and the name of its form. plain: the model before rewriting; empty if unchanged."""

    model: bytes
    form: str
    plain: bytes = b""


def form_name(exporter: str, steps: Iterable[Step]) -> str:
    """The name of the form: exporter and steps."""
    return _SEPARATOR.join((exporter, *map(str, steps)))


def parse_form(form: str) -> tuple[str, tuple[Step, ...]]:
    """The inverse of `form_name`. Raises: ValueError; KeyError for an unknown rule."""
    exporter, *steps = form.split(_SEPARATOR)
    return exporter, tuple(map(Step.parse, steps))


def write_form(
    form: str,
    exporters: Mapping[str, Exporter],
    graph: Graph,
    weights: Mapping[str, Array],
    inputs: Mapping[str, Array],
    opset: int,
) -> Written:
    """Write a graph as a model in a form; steps that do not apply are left out.

    Raises: ValueError or KeyError if the form is invalid; further ones as Exporter.export.
    """
    exporter, steps = parse_form(form)
    model = exporters[exporter].export(graph, weights, inputs, opset)
    if not steps:
        return Written(model, form)
    after, done = rewritten(model, steps)
    return Written(after, form_name(exporter, done), model if done else b"")
