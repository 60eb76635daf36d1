"""Variations of models that nnfuzz writes itself: rewrites, spellings, file forms."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from nnfuzz.generate.catalog import Catalog
from nnfuzz.ir.support_key import operators_in
from nnfuzz.materialize.older import CHANGED
from nnfuzz.materialize.opsets import once
from nnfuzz.vary.rewrite.draft import Kind
from nnfuzz.vary.rewrite.rewriting import (
    MOST_STEPS,
    RULES,
    USUAL,
    draw_rewriting,
    form_name,
    needs,
    of_kinds,
    parse_form,
)
from nnfuzz.vary.variation import CaseDraft, Variation, VariedTest

if TYPE_CHECKING:
    from nnfuzz.testcase.case import CaseConfig

SPELLED_STEPS = 3


class Rewritten(Variation):
    """Another model with the same meaning, after random steps by rules of some kinds.

    Rules that add a feature or an operator that compilers do not support are excluded. kinds: of
    the rules. steps: most steps per model. excluded: variations that are never combined with it.
    The three shares are drawn from the same random stream.
    """

    exporter = "direct"
    kinds: ClassVar[tuple[Kind, ...]]
    steps: ClassVar[int]
    excluded: ClassVar[frozenset[str]] = frozenset({"dynamic"})

    def __init__(self, config: CaseConfig, catalog: Catalog) -> None:
        super().__init__(config, catalog)
        gone = (*_refused(catalog, config.refused), *config.unrewritten)
        names = [n for n in of_kinds(*self.admitted_kinds()) if f"{n}[rule]" not in config.avoid]
        self.rules = [name for name in names if not any(needs(RULES[name], f) for f in gone)]

    def admitted_kinds(self) -> Collection[Kind]:
        """The kinds of rules that this configuration admits."""
        return self.kinds

    def written(self, test: VariedTest, draft: CaseDraft) -> CaseDraft:
        stream = test.stream("rewrites")
        written_here = parse_form(once(draft.exporter))[0] == self.exporter
        if not (written_here and self.rules and self.share) or stream.random() >= self.share:
            return draft
        if self.excluded.intersection(draft.variations):
            return draft
        after, steps = draw_rewriting(draft.model, stream, self.rules, self.steps)
        if not steps:
            return draft
        form, plain = form_name(draft.exporter, steps), draft.plain or draft.model
        names = dict.fromkeys(f"{self.name}:{step.rule}" for step in steps)
        return replace(draft, model=after, plain=plain, exporter=form).named(*names)


@lru_cache(maxsize=4)
def _refused(catalog: Catalog, refused: tuple[str, ...]) -> tuple[str, ...]:
    """The operators of which all signatures are refused."""
    left = operators_in(catalog.signature_keys())
    return tuple(sorted(operators_in(refused) - left))


class Rewrites(Rewritten):
    """Other nodes with the same results; in tests with IEEE edge values, empty tensors as well."""

    name, setting, since = "rewrite", "rewrite_share", CHANGED
    kinds, steps = USUAL, MOST_STEPS

    def admitted_kinds(self) -> Collection[Kind]:
        asked = self.kinds if self.config.rewrites else ()
        return (*asked, Kind.EMPTY) if self.config.edges else asked


class Spellings(Rewritten):
    """The same nodes and constants, written differently."""

    name, setting, since = "spelling", "spelled", CHANGED
    kinds, steps = (Kind.SPELLING,), SPELLED_STEPS


class Forms(Rewritten):
    """The same nodes in a different file: names, encodings, external data, string inputs."""

    name, setting = "form", "forms"
    kinds, steps = (Kind.FORM, Kind.ENDS), 1
    excluded = frozenset({"dynamic", "calls"})
