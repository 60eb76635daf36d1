"""Which ranks specs permit, beside the words of the standard and the answers of two runtimes.

    python -m scripts.check.ranks              all operators
    python -m scripts.check.ranks STFT MelWeightMatrix

For each rank of the first input that a spec has instances of, onnx.reference and ONNX Runtime run
some of these. A rank is doubted if no runtime takes it, or if both runtimes know the operator and
one alone takes it: that one may be wrong. The sentences of the schema
on ranks, dimensions and shapes stand below, for a person to decide. Exit code 1 if a rank is
doubted.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import onnx
import typer

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.check.instances import SIZES, OpInstance, solved
from nnfuzz.check.runtimes import Unavailable, inputs_for, named, one_node, run_reference
from nnfuzz.check.versions import legal_opsets
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.registry import OpRegistry

TRIES, MOST_RANK = 6, 6
RUNTIMES = ("onnx.reference", "onnxruntime")
_ON_RANKS = re.compile(r"\brank\b|\bdimension|\b\d-?D\b|\bshape\b|\[\w+\]\[\w+\]", re.IGNORECASE)


@dataclass
class Ranks:
    """What became of the instances of a spec. taken: (rank, runtime) -> models that it ran; tried:
    rank -> models."""

    spec: type[OpSpec]
    tried: dict[int, int] = field(default_factory=dict)
    taken: dict[tuple[int, str], int] = field(default_factory=dict)

    def line(self, rank: int) -> str:
        counts = (f"{name} {self.taken.get((rank, name), 0)}" for name in RUNTIMES)
        return f"{rank} ({', '.join(counts)} of {self.tried[rank]})"

    @property
    def doubted(self) -> Mapping[int, str]:
        """Ranks with the reason for which they are doubted."""
        knowing = [name for name in RUNTIMES if any((r, name) in self.taken for r in self.tried)]
        found = {}
        for rank in self.tried:
            runs = [name for name in knowing if (rank, name) in self.taken]
            if knowing and not runs:
                found[rank] = "no runtime takes it"
            elif len(runs) < len(knowing):
                found[rank] = f"{runs[0]} alone takes it"
        return found


def asked(spec: type[OpSpec], rng: random.Random) -> Ranks:
    """Runs some instances of every rank on both runtimes."""
    ranks, runtime = Ranks(spec), BackendRegistry.discover().get(RUNTIMES[1])()
    lo, hi = spec.inputs[0].ranks if spec.inputs else (0, -1)
    for rank in range(lo, min(hi, MOST_RANK) + 1):
        for instance, opset in instances(spec, rank, rng):
            arrays, _ = inputs_for(instance, np.random.default_rng(rng.randrange(1 << 32)))
            model = one_node(instance, instance.op.type_transfer(*instance.types), opset)
            ranks.tried[rank] = ranks.tried.get(rank, 0) + 1
            for name in RUNTIMES:
                if _runs(name, runtime, model, arrays):
                    ranks.taken[rank, name] = ranks.taken.get((rank, name), 0) + 1
    return ranks


def instances(
    spec: type[OpSpec], rank: int, rng: random.Random
) -> Iterator[tuple[OpInstance, int]]:
    """Up to TRIES instances whose first input has a rank, each with an opset."""
    for _ in range(TRIES):
        signature = rng.choice(spec.signatures())
        opsets = legal_opsets(spec, signature)
        if opsets and (found := solved(spec, signature, rank, Draw(rng, SIZES))):
            yield found, max(opsets)


def _runs(name: str, runtime: object, model: onnx.ModelProto, arrays: Sequence[np.ndarray]) -> bool:
    try:
        if name == RUNTIMES[0]:
            run_reference(model, arrays)
        else:
            runtime.build(model.SerializeToString(), "O0")(named(arrays))  # type: ignore[attr-defined]
    except Unavailable:
        return False
    except Exception:
        return False
    return True


def words(spec: type[OpSpec]) -> list[str]:
    """The sentences of the operator's schema that speak of ranks or shapes."""
    if not onnx.defs.has(spec.name):
        return []
    schema = onnx.defs.get_schema(spec.name)
    texts = [schema.doc or "", *(f"{i.name}: {i.description}" for i in schema.inputs)]
    sentences = (s for text in texts for s in re.split(r"(?<=[.;])\s+|\n\n", text))
    return [" ".join(s.split()) for s in sentences if _ON_RANKS.search(s)]


def main(
    operators: Annotated[list[str] | None, typer.Argument(help="Names; default: all.")] = None,
    seed: int = 0,
) -> None:
    registry, doubted = OpRegistry.load(), 0
    for spec in registry.specs():
        if operators and spec.name not in operators:
            continue
        ranks = asked(spec, random.Random(f"{seed} {spec.name}"))
        why = ranks.doubted
        if not (why or operators):
            continue
        doubted += bool(why)
        print(f"{spec.name}: ranks {'; '.join(map(ranks.line, ranks.tried))}")
        for rank, reason in why.items():
            print(f"  doubted: rank {rank}: {reason}")
        for sentence in words(spec):
            print(f"    {sentence}")
    print(f"{doubted} operators with doubted ranks")
    raise typer.Exit(1 if doubted else 0)


if __name__ == "__main__":
    typer.run(main)
