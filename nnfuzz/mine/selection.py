"""Which of the cuts of all models become patterns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from nnfuzz.mine.cuts import Cut
from nnfuzz.operators.motif_file import MotifSource

MOST_VARIANTS, MOST_TRIED = 4, 6
"""Variants of a pattern, the most frequent ones, and how many are tried until there are so many."""
CHANGED_BY = frozenset[frozenset[str]]
"""Names of operators that a pass has changed, in lower case; one set for each pass."""


@dataclass
class PatternCandidate:
    """All cuts of one form.

    examples: by the features that distinguish variants, with the number of models of each. models:
    that have such a cut. changed: whether a pass has changed such operators in one of them.
    """

    cut: Cut
    examples: Counter[str] = field(default_factory=Counter)
    cuts: dict[str, Cut] = field(default_factory=dict)
    models: set[int] = field(default_factory=set)
    sources: dict[tuple[str, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    larger: set[str] = field(default_factory=set)
    whole: bool = False
    changed: bool = False

    @property
    def variants(self) -> list[Cut]:
        """One cut for each of the most frequent variants."""
        return [self.cuts[key] for key, _ in self.examples.most_common(MOST_TRIED)]

    @property
    def origins(self) -> tuple[MotifSource, ...]:
        found = sorted(self.sources.items(), key=lambda item: (-len(item[1]), item[0]))
        return tuple(MotifSource(label, licence, len(models)) for (label, licence), models in found)


class Candidates:
    """Collects the cuts of models, and says which of them are worth being patterns."""

    def __init__(self) -> None:
        self._found: dict[str, PatternCandidate] = {}
        self._models = 0

    def __len__(self) -> int:
        return len(self._found)

    def add(
        self, cuts: Iterable[Cut], label: str, licence: str, changed: CHANGED_BY = frozenset()
    ) -> None:
        """Adds the cuts of one model."""
        self._models += 1
        for cut in cuts:
            candidate = self._found.setdefault(cut.form, PatternCandidate(cut))
            key = _variant_key(cut)
            candidate.examples[key] += 1
            candidate.cuts.setdefault(key, cut)
            candidate.models.add(self._models)
            candidate.sources[label, licence].add(self._models)
            candidate.larger.update(cut.larger)
            candidate.whole |= cut.whole
            candidate.changed |= _is_changed(cut, changed)

    def chosen(self, known: Collection[str], most: int) -> list[PatternCandidate]:
        """The candidates that become patterns, the best ones first.

        known: structures that are left out. A candidate is left out, too, if it occurs in a single
        model without being all of a graph or what a pass changed, or if it never occurs without a
        larger one.
        """
        kept = [c for c in self._found.values() if c.cut.structure not in known]
        kept = [c for c in kept if len(c.models) > 1 or c.whole or c.changed]
        kept = [c for c in kept if not self._is_part(c)]
        return sorted(kept, key=_rank)[:most]

    def _is_part(self, candidate: PatternCandidate) -> bool:
        found: Mapping[str, PatternCandidate] = self._found
        return any(
            found[form].models == candidate.models for form in candidate.larger if form in found
        )


def _rank(candidate: PatternCandidate) -> tuple[bool, int, int, str]:
    count, nodes = len(candidate.models), len(candidate.cut.part.nodes)
    return not candidate.changed, -count, -nodes, candidate.cut.form


def _variant_key(cut: Cut) -> str:
    """What distinguishes variants: attributes, constants, ranks and dtypes, not sizes of inputs."""
    part = cut.part
    types = [(v.dtype, len(v.shape)) for v in part.values]
    attributes = [dict(node.attributes) for node in part.nodes]
    return repr((types, attributes, sorted(part.prescribed.items())))


def _is_changed(cut: Cut, changed: CHANGED_BY) -> bool:
    """Whether the cut has all operators of a pattern that a pass has changed."""
    names = [node.op.lower() for node in cut.part.nodes]
    return any(
        all(any(name.startswith(operator) for name in names) for operator in operators)
        for operators in changed
    )
