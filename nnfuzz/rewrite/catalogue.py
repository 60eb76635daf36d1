"""All rewrite rules by name."""

from __future__ import annotations

from collections.abc import Mapping

from nnfuzz.rewrite.rule import Rule
from nnfuzz.rewrite.rules import algebra, control, data, functions, identities, structure

_ALL = (
    *(functions.RULES + control.RULES + structure.RULES),
    *(data.RULES + identities.RULES + algebra.RULES),
)
RULES: Mapping[str, Rule] = {rule.name: rule for rule in _ALL}
assert len(RULES) == len(_ALL), "two rewrites have the same name"


def named(name: str) -> Rule:
    """Raises: KeyError that lists the known ones."""
    if name not in RULES:
        raise KeyError(f"unknown rewrite {name!r}; known: {', '.join(sorted(RULES))}")
    return RULES[name]
