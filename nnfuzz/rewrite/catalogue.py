"""All rewrite rules by name."""

from __future__ import annotations

from collections.abc import Mapping

from nnfuzz.rewrite.rule import Rule
from nnfuzz.rewrite.rules import (
    algebra,
    batch,
    control,
    data,
    empty,
    ends,
    external,
    functions,
    identities,
    spelling,
    strings,
    structure,
)

_ALL = (
    *(functions.RULES + control.RULES + structure.RULES),
    *(data.RULES + identities.RULES + algebra.RULES + batch.RULES),
    *(strings.RULES + ends.RULES + external.RULES + spelling.RULES + empty.RULES),
)
RULES: Mapping[str, Rule] = {rule.name: rule for rule in _ALL}
assert len(RULES) == len(_ALL), "two rewrites have the same name"
EDGES: tuple[str, ...] = tuple(rule.name for rule in empty.RULES)
"""Rules that use corner cases of the ONNX specification; they are drawn only on request."""
SPELLINGS: tuple[str, ...] = (
    *(rule.name for rule in spelling.RULES),
    *("constant_node", "constants_merged", "constant_unshared", "axis_from_behind"),
)
"""Rules that keep every node that computes something, and write it or its constants otherwise."""
OF_FILES: tuple[str, ...] = tuple(rule.name for rule in ends.RULES + external.RULES)
"""Rules that make a file which not every reader of a model takes for the same: with further files
beside it, or with other inputs and outputs."""
USUAL: tuple[str, ...] = tuple(name for name in RULES if name not in (*EDGES, *OF_FILES))
FORMS: tuple[str, ...] = tuple(
    rule.name
    for rule in (
        *(functions.function, functions.function_with_attribute, functions.unused_function),
        *(data.overridable_input, data.typed_data, data.unused_initializer),
        *(structure.values_renamed, structure.nodes_renamed, structure.shapes_declared),
        *(structure.notes_added, structure.domain_unused, external.external_data),
        *ends.RULES,
        *strings.RULES,
    )
)
"""Rules that leave the nodes as they are, and write the file in another way."""


FEATURES: Mapping[str, str] = {
    functions.FAMILY: functions.function.name,
    "If": control.if_constant.name,
    "Loop": control.loop_once.name,
    "Scan": control.scan_once.name,
    empty.FAMILY: empty.joined_with_nothing.name,
    external.FAMILY: external.external_data.name,
    **{rule.family: rule.name for rule in ends.RULES},
    strings.FAMILY: strings.through_strings.name,
}
"""Features that some compilers do not support -> a rule that brings the feature into a model."""


def needs(rule: Rule, feature: str) -> bool:
    """Whether a rule brings an operator, or one of FEATURES, into a model."""
    return feature in (rule.family, *rule.uses)


def named(name: str) -> Rule:
    """The rule of a name. Raises: KeyError that lists the known ones."""
    if name not in RULES:
        raise KeyError(f"unknown rewrite {name!r}; known: {', '.join(sorted(RULES))}")
    return RULES[name]
