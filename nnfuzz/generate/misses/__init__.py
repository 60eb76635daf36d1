"""Near misses: motifs with one deliberate change to the pattern that optimisers look for.

They test whether a fusion checks all of its conditions. Each kind of near miss is a function that
changes one operator while a motif is written. It inserts nodes and returns the outputs, or None if
it does not apply; the caller then removes the inserted nodes. To add a kind, write such a function
in one of the modules and add it to the module's KINDS.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nnfuzz.generate.misses import attributes, constants, operands, surroundings
from nnfuzz.generate.misses.call import Call, Inserting, Kind

_MODULES = (attributes, constants, operands, surroundings)
KINDS: Mapping[str, Kind] = {kind.__name__: kind for module in _MODULES for kind in module.KINDS}
"""The kinds by the name that a test gives after the motif's, as in "gelu_erf~swapped"."""
GROUPS: Mapping[str, int] = {
    kind.__name__: group for group, module in enumerate(_MODULES) for kind in module.KINDS
}
"""The module of each kind, as a number: kinds of one module apply to about as many operators."""
BRINGS: Mapping[str, str] = {
    **{"identity": "Identity", "dropout": "Dropout", "reshape_to_same": "Reshape"},
    **{"cast_to_same": "Cast", "cast_and_back": "Cast", "transpose_to_same": "Transpose"},
    **{"joined_alone": "Concat", "bias_added": "Add", "bias_quantised": "DequantizeLinear"},
    **{"constant_quotient": "Div", "unsqueezed": "Unsqueeze"},
}
"""The operator that a kind inserts, for kinds that insert one."""


def bringing(focus: Collection[str]) -> tuple[str, ...]:
    """The kinds of near misses that insert an operator of the focus."""
    return tuple(kind for kind, operator in BRINGS.items() if operator in focus)


__all__ = ["GROUPS", "KINDS", "Call", "Inserting", "Kind", "bringing"]
