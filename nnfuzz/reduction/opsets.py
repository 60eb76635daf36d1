"""The pass that writes a model for a newer opset: what shows at the newest is fixed there first.

It comes last. Where a failure shows at old opsets alone, the model keeps the newest of those.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nnfuzz.check.versions import version_of
from nnfuzz.materialize.opsets import OPSETS
from nnfuzz.reduction.edit import Edit
from nnfuzz.reduction.subject import Subject
from nnfuzz.vary.rewrite.rewriting import parse_form


def propose_opsets(subject: Subject) -> Iterable[Edit]:
    """The newest opset of all versions that the operators of the model have had since its own, the
    last one first.
    """
    exporter, _ = parse_form(subject.exporter)
    last = min(subject.newest, OPSETS.get(exporter, OPSETS["direct"])[1])
    later = range(last, subject.opset, -1)
    return [Edit("opsets", value=o) for o in later if o == last or _differs(subject, o)]


def _differs(subject: Subject, opset: int) -> bool:
    """Whether an operator has another version at the next opset."""
    specs = {type(node.op) for node in subject.graph.nodes}
    return any(version_of(s, opset) != version_of(s, opset + 1) for s in specs)  # type: ignore[arg-type]


def apply_opset(subject: Subject, edit: Edit) -> Subject:
    return replace(subject, opset=edit.value)
