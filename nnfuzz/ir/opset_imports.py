"""Which versions of ONNX's further domains go with an opset of ONNX."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

OWN_DOMAINS = ("", "ai.onnx")
"""How models write the domain of ONNX's own operators."""
_COLUMNS = {"ai.onnx.ml": 3}
"""Where the table of ONNX's releases has the version of a domain."""


@cache
def domain_version(domain: str, opset: int) -> int:
    """The version of a domain that ONNX released with an opset of its own; 1 for domains that are
    not ONNX's."""
    from onnx import helper

    if domain in OWN_DOMAINS:
        return opset
    column = _COLUMNS.get(domain)
    if column is None:
        return 1
    return max(int(row[column]) for row in helper.VERSION_TABLE if int(row[2]) <= opset)


@cache
def operator_version(name: str, domain: str, opset: int) -> int:
    """The version of a domain in which models of an opset have an operator: the one that goes with
    the opset, or the last one before the operator was deprecated, if that is older."""
    from onnx import defs

    version = domain_version(domain, opset)
    if domain in OWN_DOMAINS or not defs.has(name, version, domain):
        return version
    schema = defs.get_schema(name, version, domain)
    return schema.since_version - 1 if schema.deprecated else version


def imported_versions(operators: Iterable[tuple[str, str]], opset: int) -> dict[str, int]:
    """The versions of all domains that a model imports. operators: their domains and names.

    Of a domain it is the newest one in which none of the operators is deprecated.
    """
    found = {"": opset}
    for domain, name in sorted(set(operators)):
        if domain not in OWN_DOMAINS:
            version = operator_version(name, domain, opset)
            found[domain] = min(version, found.get(domain, version))
    return found
