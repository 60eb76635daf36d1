"""Test cases that every compiler must refuse: a generated model with one deliberate fault."""

from __future__ import annotations

import random
from dataclasses import replace

from nnfuzz.ir.support_key import SupportKey
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.case_generator import CaseGenerator, Report
from nnfuzz.testcase.identity import Numbered, Probe
from nnfuzz.vary.faults.catalogue import KINDS, carriers, disrupted
from nnfuzz.vary.faults.site import Kind

ATTEMPTS = 40
"""Models in which a place for a fault is looked for; most kinds find one in the first or second."""


def produce_invalid(generator: CaseGenerator, index: int, report: Report) -> TestCase | NotProduced:
    """The test case of an index, a function of (seed, index, configuration).

    The kinds of faults take turns. A fault that needs a certain operator is made in a model of that
    operator alone, others in such a model or a small graph.
    """
    kinds = list(KINDS.values())
    kind = kinds[(generator.seed + index) % len(kinds)]
    rng, id_ = random.Random(f"{generator.seed}/{index}/fault"), Numbered(generator.seed, index)
    base: TestCase | NotProduced | None = None
    keys = _keys(generator, kind)
    for _ in range(ATTEMPTS if keys else 0):
        base = _base(generator, kind, keys, rng, report)
        if isinstance(base, TestCase):
            faulty = disrupted(kind, base.model, base.inputs, rng)
            if faulty is not None:
                made = {"model": faulty.model, "inputs": faulty.inputs, "fault": faulty.fault}
                plain, inputs = faulty.valid
                before = {"plain": plain, "plain_inputs": inputs}
                return replace(base, id=id_, weights={}, expected={}, **made, **before)  # type: ignore[arg-type]
    if isinstance(base, NotProduced) and base.stage == "fault":
        return replace(base, id=id_)
    why = f"none of {ATTEMPTS} models has a place for the fault {kind.name}"
    return NotProduced(id_, "generate", why, generated_for=generator.config.writer)


def _keys(generator: CaseGenerator, kind: Kind) -> list[str]:
    """The signatures of operators that a fault can be made in."""
    names = carriers(kind)
    keys = generator.catalog.signature_keys()
    return [key for key in keys if names is None or SupportKey.parse(key).operator in names]


def _base(
    generator: CaseGenerator, kind: Kind, keys: list[str], rng: random.Random, report: Report
) -> TestCase | NotProduced:
    """A valid model."""
    if kind.carries is None and rng.random() < 0.5:
        return generator.produce(rng.randrange(1 << 31), report)
    key = SupportKey.parse(rng.choice(keys)).with_exporter(generator.config.exporter)
    return generator.probe(Probe(key, rng.randrange(1 << 31)), report)
