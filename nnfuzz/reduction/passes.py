"""What the passes of the reducer do: how each proposes edits, and how it applies one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nnfuzz.reduction import cuts, shapes, values
from nnfuzz.reduction.edit import ORDER, Edit
from nnfuzz.reduction.subject import Inapplicable, Subject, at_each_size, edited

FIXING = "direct"
"""The pass that leaves out calls, and makes a symbolic dimension static by emitting all copies."""


@dataclass(frozen=True)
class Pass:
    """propose: edits for a subject, the most promising first. apply: raises Inapplicable."""

    propose: Callable[[Subject], Iterable[Edit]]
    apply: Callable[[Subject, Edit], Subject]


_PASSES = {
    "direct": Pass(cuts.propose_direct, cuts.apply_direct),
    "large": Pass(shapes.propose_less, shapes.apply_shrinking),
    "rewrites": Pass(cuts.propose_rewrites, cuts.apply_rewrites),
    "halves": Pass(cuts.propose_halves, cuts.apply_outputs),
    "neighbourhoods": Pass(cuts.propose_neighbourhoods, cuts.apply_neighbourhoods),
    "outputs": Pass(cuts.propose_outputs, cuts.apply_outputs),
    "replacements": Pass(cuts.propose_replacements, cuts.apply_replacement),
    "bypasses": Pass(cuts.propose_bypasses, cuts.apply_bypass),
    "operands": Pass(cuts.propose_operands, cuts.apply_operand),
    "sharing": Pass(cuts.propose_sharing, cuts.apply_sharing),
    "unfreezing": Pass(cuts.propose_unfreezing, cuts.apply_unfreezing),
    "attributes": Pass(values.propose_attributes, values.apply_attribute),
    "dtypes": Pass(values.propose_dtypes, values.apply_dtype),
    "shrinking": Pass(shapes.propose_shrinking, shapes.apply_shrinking),
    "ranks": Pass(shapes.propose_ranks, shapes.apply_rank),
    "numbers": Pass(values.propose_numbers, values.apply_numbers),
    "elements": Pass(values.propose_elements, values.apply_numbers),
    "opsets": Pass(cuts.propose_opsets, cuts.apply_opset),
}
PASSES: Mapping[str, Pass] = {name: _PASSES[name] for name in ORDER}


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
    if edit.needs_focus:
        raise Inapplicable("no element is known to fail")
    apply = PASSES[edit.by].apply
    if edit.by == FIXING:
        return apply(subject, edit)
    return edited(subject, lambda part: apply(part, edit))


def proposed(subject: Subject, name: str) -> list[Edit]:
    """The edits of a pass. Where there are several calls, they are those for the first one."""
    whole = name == FIXING
    return list(PASSES[name].propose(subject if whole else at_each_size(subject)[0]))
