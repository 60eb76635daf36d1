"""Rewrites a model in several steps, drawn or given; each step is a rule and a number.

A model after its steps is a function of the model and the steps. The number chooses the place and
whatever else the rule draws, so that steps can be left out, and the model can change, while the
others still say something. Half of the drawn sequences are compositions: every step but the first
is taken where the one before has changed something, so that rules meet each other's results.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from nnfuzz.rewrite.catalogue import RULES, USUAL, named
from nnfuzz.rewrite.draft import Draft
from nnfuzz.rewrite.region import Region
from nnfuzz.rewrite.rule import Rule
from nnfuzz.rewrite.rules import algebra

MOST_STEPS = 8
MOST_BYTES = 1 << 23
"""Of a model that is rewritten: each step looks at all of it."""
_NUMBERS = 1000
_SELDOM_FIRST = 0.3
_COMPOSED = 0.5
_NEAR = "@"


@dataclass(frozen=True)
class Step:
    """One application of a rule. near: where the step before it has changed something, if the rule
    has a place there. Written RULE#NUMBER, or RULE#NUMBER@ if near.
    """

    rule: str
    number: int = 0
    near: bool = False

    @classmethod
    def parse(cls, text: str) -> Step:
        """Raises: ValueError for what is no step, KeyError for an unknown rule."""
        name, _, number = text.removesuffix(_NEAR).partition("#")
        return cls(named(name).name, int(number or 0), text.endswith(_NEAR))

    def __str__(self) -> str:
        return f"{self.rule}#{self.number}{_NEAR if self.near else ''}"


def rewritten(model: bytes, steps: Iterable[Step]) -> tuple[bytes, tuple[Step, ...]]:
    """The model after the steps, and those of them that found a place in it.

    Raises: KeyError for an unknown rule.
    """
    draft = Draft(onnx.load_model_from_string(model))
    done = tuple(step for step in steps if _applied(draft, step))
    return (_serialised(draft), done) if done else (model, ())


def drawn(
    model: bytes, rng: random.Random, rules: Collection[str] = (), most: int = MOST_STEPS
) -> tuple[bytes, tuple[Step, ...]]:
    """The model after one to `most` steps that rng draws among some rules; default: USUAL."""
    if len(model) > MOST_BYTES:
        return model, ()
    draft, done = Draft(onnx.load_model_from_string(model)), list[Step]()
    names = [name for name in RULES if name in (rules or USUAL)]
    composed = rng.random() < _COMPOSED
    for _ in range(rng.randint(1, most)):
        step = _next(draft, names, rng, composed and bool(done))
        if step is not None and _applied(draft, step):
            done.append(step)
    return (_serialised(draft), tuple(done)) if done else (model, ())


def _next(draft: Draft, names: Sequence[str], rng: random.Random, near: bool) -> Step | None:
    """A step that has a place in the draft; None if no rule has. What needs a certain operator has
    one seldom, and goes first now and then.
    """
    order = rng.sample(names, len(names))
    if rng.random() < _SELDOM_FIRST:
        order.sort(key=lambda name: RULES[name].family != algebra.FAMILY)
    for name in order:
        if _sites(draft, RULES[name], near):
            return Step(name, rng.randrange(_NUMBERS), near)
    return None


def _sites(draft: Draft, rule: Rule, near: bool) -> Sequence[Any]:
    """Where a rule applies; near: only where the last step has changed something."""
    sites = rule.sites(draft)
    return [s for s in sites if draft.changed & _names(draft, s)] if near else sites


def _names(draft: Draft, site: Any) -> set[str]:
    """The values that a site is about."""
    if isinstance(site, tuple):
        return set().union(*(_names(draft, part) for part in site))
    if isinstance(site, Region):
        return {*site.inputs, *site.outputs}
    if isinstance(site, int) and site < len(draft.graph.node):
        return {*draft.graph.node[site].input, *draft.graph.node[site].output}
    return {str(getattr(site, "value", site))}


def _applied(draft: Draft, step: Step) -> bool:
    rule, rng = named(step.rule), random.Random(f"{step.rule}#{step.number}")
    sites = (step.near and _sites(draft, rule, near=True)) or rule.sites(draft)
    if sites:
        chosen = min(sites, key=lambda site: _rank(draft, step, site))
        rule.apply(draft, chosen, rng)
        draft.learn()
    return bool(sites)


def _rank(draft: Draft, step: Step, site: Any) -> tuple[int, str]:
    """The site of least rank is taken: one that a smaller model still has is taken there, too."""
    told = _told(draft, site)
    return zlib.crc32(f"{step} {told}".encode()), told


def _told(draft: Draft, site: Any) -> str:
    """A site by the names of values, which outlive positions."""
    if isinstance(site, tuple):
        return " ".join(_told(draft, part) for part in site)
    if isinstance(site, Region):
        return f"{site.stop - site.start} {' '.join(site.outputs)}"
    if isinstance(site, int) and site < len(draft.graph.node):
        return " ".join(draft.graph.node[site].output)
    return str(site)


def _serialised(draft: Draft) -> bytes:
    return draft.model.SerializeToString(deterministic=True)
