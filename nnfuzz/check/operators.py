"""Conformance of operator specs, for `nnfuzz ops check` and the tests of plug-in authors.

`check_operator` holds a spec against two judges, execution in PyTorch and ONNX (checker,
strict shape inference, values by onnx.reference and by backends that are passed in):

- soundness: solved instances, forward and backward, run, and have the types and values claimed;
- tightness: instances drawn blindly that both judges accept satisfy `requires`;
- rejection: instances with one broken condition raise ConstraintError;
- purity: predicates give the same answer twice, write nothing, and attributes survive JSON.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nnfuzz.backend.target import DIRECT
from nnfuzz.check import instances as draws
from nnfuzz.check import reference_implementations as references
from nnfuzz.check.agreement import Expected, numeric_faults
from nnfuzz.check.instances import OpInstance, SignatureTypes
from nnfuzz.check.legality import legal_before
from nnfuzz.check.report import CheckReport
from nnfuzz.check.runtimes import REFERENCE, Runtime, Unavailable
from nnfuzz.check.versions import legal_opsets
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.emit import OPSETS
from nnfuzz.materialize.errors import MaterializeError, OpsetError
from nnfuzz.materialize.older import WHOLE, NotWritten
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import ConstraintError, OpSpec
from nnfuzz.operators.waiver import NONE, Waivers

RANKS = 6
OLD = 0.3
"""Share of the models at an opset before WHOLE, where an operator has one there."""


def check_operator(
    spec: type[OpSpec],
    rng: random.Random,
    instances: int = 20,
    runtimes: Mapping[str, Runtime] = REFERENCE,
    waivers: Waivers = NONE,
) -> CheckReport:
    """Check one operator on about `instances` instances of each kind.

    Every signature is covered, so an operator with more signatures gets more forward instances.
    runtimes: by name, in the order in which they are asked for values (see `runtime_of`); one
    that agrees with `torch` is enough. waivers: where not to ask them.
    """
    return _Check(spec, rng, instances, runtimes, waivers).run()


def check_operators(
    specs: Iterable[type[OpSpec]],
    seed: int = 0,
    instances: int = 20,
    runtimes: Mapping[str, Runtime] = REFERENCE,
    waivers: Waivers = NONE,
) -> Iterator[CheckReport]:
    """Check operators one by one, each with dice that depend on the seed and its name only."""
    for spec in specs:
        rng = random.Random(f"{seed}:{spec.name}")
        yield check_operator(spec, rng, instances, runtimes, waivers)


class _Check:
    def __init__(
        self,
        spec: type[OpSpec],
        rng: random.Random,
        instances: int,
        runtimes: Mapping[str, Runtime],
        waivers: Waivers,
    ) -> None:
        self.spec = spec
        self.runtimes = runtimes
        self.waivers = waivers
        self.instances = instances
        self.draw = Draw(rng, draws.SIZES)
        self.values = np.random.default_rng(rng.getrandbits(32))
        self.report = CheckReport(spec.name)
        self.legal: list[int] = []
        """Opsets at which ONNX admits the signature at hand."""
        self.dice = random.Random(spec.name)
        """Decides which models are old, so that the instances do not depend on it."""
        self.old = self.dice.randrange(OPSETS[0], WHOLE)
        """The opset before WHOLE at which the operator is asked."""
        self.legal_old = False
        """Whether ONNX admits the signature at hand there."""

    def run(self) -> CheckReport:
        start = time.perf_counter()
        for name, check, count in (
            ("forward", self.forward, max(self.instances, len(self.spec.signatures()))),
            ("backward", self.backward, self.instances),
            ("tightness", self.tightness, self.instances * 3),
            ("rejection", self.rejection, self.instances),
            ("empty", self.empty, self.instances * self.spec.takes_empty),
            ("patterns", self.patterns, 1),
        ):
            for signature in self.dealt(count):
                self.legal = legal_opsets(self.spec, signature)
                self.legal_old = legal_before(self.spec, signature, self.old)
                self.guarded(name, check, signature)
        self.report.seconds = time.perf_counter() - start
        return self.report

    def guarded(
        self, name: str, check: Callable[[SignatureTypes], None], signature: SignatureTypes
    ) -> None:
        """Run a check; an exception out of the spec becomes a problem of the spec."""
        try:
            check(signature)
        except Exception as error:
            binding = {k: v.value for k, v in signature[0].items()}
            self.report.problem(f"{name} with {binding}: {type(error).__name__}: {error}")

    def dealt(self, count: int) -> list[SignatureTypes]:
        """`count` signatures that some opset admits, in random order, each about equally often."""
        signatures = [s for s in self.spec.signatures() if legal_opsets(self.spec, s)]
        if not signatures:
            self.report.problem(
                "no opset of ONNX has it with any dtypes; where ONNX has no operator of the name, "
                "`def onnx` says which others it is"
            )
            return []
        rounds = -(-count // len(signatures))
        dealt = [s for _ in range(rounds) for s in self.draw.shuffled(signatures)]
        return dealt[:count]

    def rank(self, ranks: tuple[int, int]) -> int:
        return self.draw.integer(ranks[0], min(ranks[1], RANKS - 1))

    # -- soundness ----------------------------------------------------------------------------

    def forward(self, signature: SignatureTypes) -> None:
        rank = self.rank(self.spec.inputs[0].ranks)
        instance = draws.solved(self.spec, signature, rank, self.draw)
        if instance is None:
            self.report.unsolved += 1
            return
        self.report.forward += 1
        self.sound(instance, None)

    def backward(self, signature: SignatureTypes) -> None:
        for rank in self.draw.shuffled(range(RANKS)):
            preceding = draws.preceding(self.spec, signature, rank, self.draw)
            if preceding is not None:
                self.report.backward += 1
                self.sound(*preceding)
                return
        self.report.unsolved += 1

    def sound(self, instance: OpInstance, wanted: TensorType | None) -> None:
        """A solved instance must pass `check` and have the claimed types and values."""
        op, types = instance.op, instance.types
        try:
            op.check(*types)
        except ConstraintError as error:
            self.report.problem(f"{instance}: solved but not admitted: {error}")
            return
        outputs = self.pure(instance)
        if wanted is not None and not outputs[0].same(wanted):
            self.report.problem(f"{instance}: inferred backward for {wanted}, yields {outputs[0]}")
        self.costs(instance)
        arrays, inside = references.inputs_for(instance, self.values)
        self.report.outside += not inside
        if inside and self.agrees_torch(instance, arrays, outputs):
            self.agrees_onnx(instance, arrays, outputs)

    def pure(self, instance: OpInstance) -> list[TensorType]:
        """Predicates are functions of their arguments; attributes survive JSON. The outputs."""
        op, types = instance.op, instance.types
        before = repr(op.__dict__)
        answers = [
            (repr(list(op.requires(*types))), repr(op.type_transfer(*types))) for _ in range(2)
        ]
        if answers[0] != answers[1] or repr(op.__dict__) != before:
            self.report.problem(f"{instance}: requires or type_transfer is not pure")
        again = type(op).from_json(json.loads(json.dumps(op.to_json())))
        if again.attributes != op.attributes:
            self.report.problem(f"{instance}: JSON gives {again!r}")
        return op.type_transfer(*types)

    def costs(self, instance: OpInstance) -> None:
        cost = instance.op.cost(*instance.types)
        if not isinstance(cost, int) or cost < 0:
            self.report.problem(f"{instance}: cost is {cost!r}, not a natural number")

    def agrees_torch(
        self, instance: OpInstance, arrays: references.Arrays, outputs: Sequence[TensorType]
    ) -> bool:
        try:
            actual = [references.type_of(a) for a in references.run_torch(instance.op, arrays)]
        except Exception as error:
            self.report.problem(f"{instance}: torch raises {_brief(error)}")
            return False
        if len(actual) != len(outputs) or not all(a.same(b) for a, b in zip(actual, outputs)):
            self.report.problem(f"{instance}: torch yields {actual}, type_transfer {outputs}")
            return False
        for text in numeric_faults(instance.op, arrays):
            self.report.problem(f"{instance}: {text}")
        return True

    def agrees_onnx(
        self, instance: OpInstance, arrays: references.Arrays, outputs: Sequence[TensorType]
    ) -> None:
        opsets = [o for o in self.legal if not instance.op.refusal(DIRECT, o, *instance.types)]
        if not opsets:
            return
        opset = self.draw.choice(opsets)
        model = references.one_node(instance, outputs, opset)
        if old := self.model_before(instance, outputs):
            opset, model = self.old, old
        try:
            inferred = references.inferred_types(model)
        except references.RejectedByOnnx as error:
            self.report.problem(f"{instance}, opset {opset}: ONNX rejects: {error}")
            return
        if not all(i.admits(t) for i, t in zip(inferred, outputs)):
            self.report.problem(f"{instance}, opset {opset}: ONNX infers {inferred}, not {outputs}")
            return
        confirmed, text = self.values_agree(instance, arrays, model, opset)
        self.report.unconfirmed += confirmed is None
        if confirmed is False:
            self.report.problem(f"{instance}, opset {opset}: {text}")

    def model_before(self, instance: OpInstance, outputs: Sequence[TensorType]) -> Any:
        """Now and then the model of an instance at the old opset; None if there is none, since
        generation leaves out what cannot be written there."""
        if not self.legal_old or self.dice.random() > OLD:
            return None
        if instance.op.refusal(DIRECT, self.old, *instance.types):
            return None
        try:
            model = references.one_node(instance, outputs, self.old)
            references.inferred_types(model)
        except (MaterializeError, OpsetError, NotWritten, references.RejectedByOnnx):
            return None
        return model

    def values_agree(
        self, instance: OpInstance, arrays: references.Arrays, model: Any, opset: int
    ) -> tuple[bool | None, str]:
        """Whether a runtime agrees with `torch`; None if none can run it. With the reasons."""
        expected = Expected.of(instance.op, arrays)
        reasons: list[str] = []
        known = self.waivers.covering(instance.op, opset, instance.types)
        waivers = {d.implementation: d for d in known}
        for name in (name for name in self.runtimes if name in waivers):
            self.report.notes[f"{name} is not asked, it {waivers[name].claim}"] += 1
        trusted = self.runtimes.keys() - waivers.keys()
        for name, run in [(n, r) for n, r in self.runtimes.items() if n in trusted]:
            try:
                text = expected.contradicts(run(model, arrays))
            except Unavailable:
                self.report.notes[f"{name} can not run it"] += 1
                continue
            except Exception as error:
                text = f"raises {_brief(error)}"
            if not text:
                return True, ""
            reasons.append(f"{name}: {text}")
            self.report.notes[f"{name} differs"] += 1
        return (False, "; ".join(reasons)) if reasons else (None, "")

    # -- tightness ----------------------------------------------------------------------------

    def tightness(self, signature: SignatureTypes) -> None:
        instance = draws.blind(self.spec, signature, self.draw)
        try:
            arrays, inside = references.inputs_for(instance, self.values)
            if not inside or not _affordable(instance):
                return
            actual = [references.type_of(a) for a in references.run_torch(instance.op, arrays)]
        except Exception:
            return
        if any(t.numel == 0 for t in actual):
            return
        self.report.accepted += 1
        try:
            instance.op.check(*instance.types)
        except ConstraintError:
            self.refusal(instance, arrays, actual)

    def refusal(
        self, instance: OpInstance, arrays: references.Arrays, actual: Sequence[TensorType]
    ) -> None:
        """PyTorch runs an instance that `requires` refuses: needlessly, if ONNX agrees with it."""
        if self.onnx_agrees(instance, arrays, actual):
            self.report.refused += 1
            self.report.example = self.report.example or f"refused: {instance}"
        else:
            self.report.torch_only += 1
            self.report.accepted -= 1

    def onnx_agrees(
        self, instance: OpInstance, arrays: references.Arrays, actual: Sequence[TensorType]
    ) -> bool:
        """Whether ONNX infers the types and a runtime computes the values that PyTorch gives."""
        try:
            opset = self.legal[-1]
            model = references.one_node(instance, actual, opset)
            defined = all(i.admits(t) for i, t in zip(references.inferred_types(model), actual))
            return defined and self.values_agree(instance, arrays, model, opset)[0] is True
        except Exception:
            return False

    # -- empty tensors ------------------------------------------------------------------------

    def empty(self, signature: SignatureTypes) -> None:
        """Admitted instances without elements run and have the types and values claimed."""
        lo, hi = self.spec.inputs[0].ranks
        rank = self.draw.integer(max(lo, 1), min(hi, RANKS))
        instance = draws.emptied(self.spec, signature, rank, self.draw)
        if instance is None or is_rejected(instance):
            return
        outputs = instance.op.type_transfer(*instance.types)
        arrays, _ = references.inputs_for(instance, self.values)
        if self.agrees_torch(instance, arrays, outputs):
            self.report.empty += 1
            self.agrees_onnx(instance, arrays, outputs)

    # -- rejection ----------------------------------------------------------------------------

    def rejection(self, signature: SignatureTypes) -> None:
        instance = draws.broken(self.spec, signature, self.draw)
        if instance is None:
            return
        self.report.broken += 1
        if not is_rejected(instance):
            self.report.problem(f"{instance}: check admits it with one condition broken")
        try:
            arrays, _ = references.inputs_for(instance, self.values)
            actual = [references.type_of(a) for a in references.run_torch(instance.op, arrays)]
        except Exception:
            self.report.torch_rejects += 1
            return
        if all(t.numel for t in actual) and self.onnx_agrees(instance, arrays, actual):
            self.report.needless += 1
            self.report.example = self.report.example or f"refused: {instance}"

    def patterns(self, signature: SignatureTypes) -> None:
        """Too many inputs, a foreign dtype and a rank out of range must not pass."""
        lo, _ = self.spec.inputs[0].ranks
        instance = draws.solved(self.spec, signature, lo, self.draw)
        if instance is None:
            return
        first, *rest = instance.types
        extra = (first,) * (self.spec.most_inputs() + 1)
        deep = first.with_shape((1,) * (self.spec.inputs[0].deepest + 1))
        variants = [extra, (deep, *rest)]
        foreign = [d for d in type(first.dtype) if d not in self.spec.inputs[0].dtypes]
        variants += [(first.with_dtype(d), *rest) for d in foreign[:1]]
        for types in variants:
            if not is_rejected(OpInstance(instance.op, tuple(types))):
                self.report.problem(f"{instance.op!r} admits {list(types)} against its patterns")


def is_rejected(instance: OpInstance) -> bool:
    """Whether `check` raises ConstraintError, as it should for an inadmissible instance."""
    try:
        instance.op.check(*instance.types)
    except ConstraintError:
        return True
    return False


def _affordable(instance: OpInstance) -> bool:
    """Whether a blind instance may be executed: its output, if it has one, is not gigantic."""
    try:
        outputs = instance.op.type_transfer(*instance.types)
        return all(t.numel <= 1 << 18 for t in outputs)
    except Exception:
        return True


def _brief(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
