"""Which domains of operators beside ONNX's own a campaign or a corpus has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from nnfuzz.ir.opset_imports import OWN_DOMAINS
from nnfuzz.records.config import ConfigError


def chosen_domains(
    taken: Mapping[str, Collection[str]], case: Mapping[str, Any], usual: bool = True
) -> tuple[str, ...]:
    """The domains beside ONNX's own whose operators models may have, sorted.

    They are those that are asked for, and those of operators that are asked for by name; where
    nothing is asked for, they are all domains that every backend takes, or none unless `usual`.
    taken: by the label of each backend, what it takes. case: fields of CaseConfig as given.
    Raises: ConfigError if a backend does not take one that is asked for.
    """
    named = {name.rpartition(".")[0] for name in case.get("operators", ())}
    asked = {*case.get("domains", ()), *named}.difference(OWN_DOMAINS)
    for label, own in taken.items():
        for lacking in sorted(asked.difference(own)):
            raise ConfigError(
                f"{label} takes no operators of the domain {lacking}, but of "
                f"{', '.join(['ai.onnx', *own])}: ask for those (domains, --operators), or leave "
                "this backend out"
            )
    decided = "domains" in case or case.get("operators") or case.get("invalid")
    if decided or not usual or not taken:
        return tuple(sorted(asked))
    return tuple(sorted(set.intersection(*map(set, taken.values()))))
