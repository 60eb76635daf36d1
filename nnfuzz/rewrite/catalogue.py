"""All rewrite rules by name."""

from __future__ import annotations

from collections.abc import Mapping

from nnfuzz.rewrite.rule import Kind, Rule
from nnfuzz.rewrite.rules import control, data, files, functions, operators, spelling, strings

_ALL = (
    *(functions.RULES + control.RULES + files.RULES + data.RULES),
    *(operators.RULES + strings.RULES + spelling.RULES),
)
RULES: Mapping[str, Rule] = {rule.name: rule for rule in _ALL}
assert len(RULES) == len(_ALL), "two rewrites have the same name"
USUAL = (Kind.REWRITE, Kind.SPELLING, Kind.FORM)
"""Kinds of rules after which a model has the same inputs and outputs and is one file."""
FEATURES: Mapping[str, str] = {
    functions.FAMILY: functions.function.name,
    "If": control.if_constant.name,
    "Loop": control.loop_once.name,
    "Scan": control.scan_once.name,
    operators.EMPTY: operators.joined_with_nothing.name,
    files.EXTERNAL_FAMILY: files.external_data.name,
    **{rule.family: rule.name for rule in strings.RULES},
}
"""Features that some compilers do not support -> a rule that brings the feature into a model."""


def of_kinds(*kinds: Kind) -> tuple[str, ...]:
    """Names of the rules of some kinds."""
    return tuple(rule.name for rule in RULES.values() if rule.kind in kinds)


def needs(rule: Rule, feature: str) -> bool:
    """Whether a rule brings an operator, or one of FEATURES, into a model."""
    return feature in (rule.family, *rule.uses)


def named(name: str) -> Rule:
    """The rule of a name. Raises: KeyError that lists the known ones."""
    if name not in RULES:
        raise KeyError(f"unknown rewrite {name!r}; known: {', '.join(sorted(RULES))}")
    return RULES[name]
