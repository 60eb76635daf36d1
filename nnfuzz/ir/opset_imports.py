"""Versions of ONNX's other domains (ai.onnx.ml) that belong to an ai.onnx opset."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

OWN_DOMAINS = ("", "ai.onnx")
"""The names that models use for the domain of ONNX's own operators."""
_COLUMNS = {"ai.onnx.ml": 3}
"""Column of a domain's version in `onnx.helper.VERSION_TABLE`."""


@cache
def domain_version(domain: str, opset: int) -> int:
    """The version of a domain that ONNX released with an ai.onnx opset; 1 if it is not ONNX's."""
    from onnx import helper

    if domain in OWN_DOMAINS:
        return opset
    column = _COLUMNS.get(domain)
    if column is None:
        return 1
    return max(int(row[column]) for row in helper.VERSION_TABLE if int(row[2]) <= opset)


@cache
def operator_version(name: str, domain: str, opset: int) -> int:
    """The version of a domain from which a model takes an operator: the one that belongs to the
    opset, or the last one before the operator was deprecated, if that is older."""
    from onnx import defs

    version = domain_version(domain, opset)
    if domain in OWN_DOMAINS or not defs.has(name, version, domain):
        return version
    schema = defs.get_schema(name, version, domain)
    return schema.since_version - 1 if schema.deprecated else version


def imported_versions(operators: Iterable[tuple[str, str]], opset: int) -> dict[str, int]:
    """The domain versions that a model imports. operators: (domain, name) of each.

    For each domain it is the newest version in which none of the operators is deprecated.
    """
    found = {"": opset}
    for domain, name in sorted(set(operators)):
        if domain not in OWN_DOMAINS:
            version = operator_version(name, domain, opset)
            found[domain] = min(version, found.get(domain, version))
    return found
