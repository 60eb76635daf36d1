"""Near misses: a motif that differs in one place from the pattern that optimisers look for.

What a fusion must check is what it forgets. Each kind of near miss is a function that inserts
another form of one operator that a motif requests. It returns the outputs, or None if there is
nothing to change or the change does not fit; what it inserted until then is taken back. To add a
kind, write such a function in one of the modules and list it in its KINDS.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nnfuzz.generate.misses import attributes, constants, operands, surroundings
from nnfuzz.generate.misses.call import Call, Inserting, Kind

_MODULES = (attributes, constants, operands, surroundings)
KINDS: Mapping[str, Kind] = {kind.__name__: kind for module in _MODULES for kind in module.KINDS}
"""By the name under which a test says what was changed: "gelu_erf~swapped"."""
GROUPS: Mapping[str, int] = {
    kind.__name__: group for group, module in enumerate(_MODULES) for kind in module.KINDS
}
"""Kinds of one group fit about as many operators."""
BRINGS: Mapping[str, str] = {
    **{"identity": "Identity", "dropout": "Dropout", "reshape_to_same": "Reshape"},
    **{"cast_to_same": "Cast", "cast_and_back": "Cast", "transpose_to_same": "Transpose"},
    **{"joined_alone": "Concat", "bias_added": "Add", "bias_quantised": "DequantizeLinear"},
    **{"constant_quotient": "Div", "unsqueezed": "Unsqueeze"},
}
"""Operators that kinds bring in."""


def bringing(focus: Collection[str]) -> tuple[str, ...]:
    """The kinds that bring in one of some operators."""
    return tuple(kind for kind, operator in BRINGS.items() if operator in focus)


__all__ = ["GROUPS", "KINDS", "Call", "Inserting", "Kind", "bringing"]
