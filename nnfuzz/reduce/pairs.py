"""Two operators at once: what is left if leaving out a single one cures the failure.

Two transpositions that cancel out, a sum and its other operand: reduction one by one does not get
past them. A model that survives this, too, needs its operators.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from nnfuzz.reduce.cuts import (
    apply_bypass,
    apply_replacement,
    propose_bypasses,
    propose_replacements,
)
from nnfuzz.reduce.edit import Edit
from nnfuzz.reduce.subject import Subject

LARGE = 6
"""Up to so many nodes a model is small: one can read it, and pairs cost hundreds of runs."""
_WAYS = {"bypasses": apply_bypass, "replacements": apply_replacement}


def propose_pairs(subject: Subject) -> Iterator[Edit]:
    """Any two nodes of a large model, each bypassed or made an input."""
    if len(subject.graph.nodes) <= LARGE:
        return
    single = [*propose_bypasses(subject), *propose_replacements(subject)]
    for pair in itertools.combinations(single, 2):
        if pair[0].target != pair[1].target:
            yield Edit("pairs", value=[edit.to_json() for edit in pair])


def apply_pair(subject: Subject, edit: Edit) -> Subject:
    """value: the two edits."""
    for part in map(Edit.from_json, edit.value):
        subject = _WAYS[part.by](subject, part)
    return subject
