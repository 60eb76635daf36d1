"""The passes of the reducer, in the order in which they run. A pass is data: how it proposes
edits, how it applies one, and whether its edits are tried together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nnfuzz.reduce import bodies, cuts, pairs, shapes, values
from nnfuzz.reduce.edit import Edit
from nnfuzz.reduce.sizes import at_each_size, edited
from nnfuzz.reduce.subject import Inapplicable, Subject

FIXING = "direct"
"""The pass that makes a symbolic dimension static, by having the copies at all sizes emitted."""


@dataclass(frozen=True)
class Pass:
    """propose: edits for a subject, the most promising first. apply: raises Inapplicable.

    merge: whether its edits are independent, so that the engine tries many at once.
    """

    name: str
    propose: Callable[[Subject], Iterable[Edit]]
    apply: Callable[[Subject, Edit], Subject]
    merge: bool = False


PASSES: Mapping[str, Pass] = {
    p.name: p
    for p in (
        Pass("direct", cuts.propose_direct, cuts.apply_direct),
        Pass("halves", cuts.propose_halves, cuts.apply_outputs),
        Pass("neighbourhoods", cuts.propose_neighbourhoods, cuts.apply_neighbourhoods),
        Pass("hoisting", bodies.propose_hoisting, bodies.apply_hoisting),
        Pass("outputs", cuts.propose_outputs, cuts.apply_outputs),
        Pass("prefixes", cuts.propose_prefixes, cuts.apply_outputs),
        Pass("replacements", cuts.propose_replacements, cuts.apply_replacement, merge=True),
        Pass("bypasses", cuts.propose_bypasses, cuts.apply_bypass),
        Pass("pairs", pairs.propose_pairs, pairs.apply_pair),
        Pass("inlining", bodies.propose_inlining, bodies.apply_inlining),
        Pass("operands", cuts.propose_operands, cuts.apply_operand),
        Pass("constants", cuts.propose_constants, cuts.apply_replacement),
        Pass("sharing", cuts.propose_sharing, cuts.apply_sharing),
        Pass("unfreezing", cuts.propose_unfreezing, cuts.apply_unfreezing, merge=True),
        Pass("plain", values.propose_plain, values.apply_plain),
        Pass("attributes", values.propose_attributes, values.apply_attribute),
        Pass("dtypes", values.propose_dtypes, values.apply_dtype),
        Pass("shrinking", shapes.propose_shrinking, shapes.apply_shrinking),
        Pass("ranks", shapes.propose_ranks, shapes.apply_rank),
        Pass("numbers", values.propose_numbers, values.apply_numbers, merge=True),
        Pass("elements", values.propose_elements, values.apply_numbers),
    )
}


def applied(subject: Subject, edits: Iterable[Edit]) -> Subject:
    """The subject after the edits, one after the other; those that no longer fit are left out.

    Raises: Inapplicable if none fits, or the last state is invalid.
    """
    done, reason = 0, ""
    for edit in edits:
        try:
            subject = _applied(subject, edit)
            done += 1
        except Inapplicable as error:
            reason = str(error)
    if not done:
        raise Inapplicable(reason)
    return subject.checked()


def _applied(subject: Subject, edit: Edit) -> Subject:
    apply = PASSES[edit.by].apply
    if edit.by == FIXING:
        return apply(subject, edit)
    return edited(subject, lambda part: apply(part, edit))


def proposed(subject: Subject, name: str) -> list[Edit]:
    """The edits of a pass; those for the first size, where there are several."""
    whole = name == FIXING
    return list(PASSES[name].propose(subject if whole else at_each_size(subject)[0]))
