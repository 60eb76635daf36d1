"""Conformance of operator specs, for `nnfuzz ops check` and the tests of plug-in authors.

`check_operator` answers the questions of the table QUESTIONS. They compare a spec with execution in
PyTorch and with ONNX (checker, strict shape inference, values by onnx.reference and by the runtimes
that the caller passes):

- soundness: solved instances (forward, backward and empty) run and have the types and values that
  the spec claims, its predicates give the same answer twice, and attributes survive JSON;
- tightness: instances drawn blindly that PyTorch and ONNX accept satisfy `requires`;
- rejection: instances with one broken condition, and those that do not fit the declared patterns,
  raise ConstraintError.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.backend.target import DIRECT
from nnfuzz.check import instances as draws
from nnfuzz.check import runtimes as references
from nnfuzz.check.instances import OpInstance, SignatureTypes
from nnfuzz.check.questions import (
    AGREES,
    DIFFERS,
    WAIVED,
    CheckReport,
    Expected,
    ReferenceQuestion,
    brief,
    example_of,
    numeric_faults,
)
from nnfuzz.check.runtimes import REFERENCE, STRICT, Runtime
from nnfuzz.check.versions import legal_before, legal_opsets
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.emit import OPSETS
from nnfuzz.materialize.errors import MaterializeError, OpsetError
from nnfuzz.materialize.older import WHOLE, NotWritten
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import ConstraintError, OpSpec
from nnfuzz.operators.waiver import NONE, Waivers

if TYPE_CHECKING:
    import onnx

Count = Callable[[type[OpSpec], int], int]
RANKS = 6
OLD = 0.3
"""Share of the models at an opset before WHOLE, where an operator has one there."""


def check_operators(
    specs: Iterable[type[OpSpec]],
    seed: int = 0,
    instances: int = 20,
    runtimes: Mapping[str, Runtime] = REFERENCE,
    waivers: Waivers = NONE,
) -> Iterator[CheckReport]:
    """Check operators one by one, and look for an example of each waiver.

    The dice depend on the seed and the operator's name only.
    """
    for spec in specs:
        dice = random.Random(f"{seed}:{spec.name}")
        report = check_operator(spec, dice, instances, runtimes, waivers)
        for waiver in waivers.of(spec.name):
            if waiver.implementation in runtimes:
                dice = random.Random(f"{seed}:{spec.name}:{waiver.claim}")
                shown = example_of(spec, waiver, dice, waivers, runtimes)
                report.examples[waiver] = shown and shown[0].lines(shown[1])
                if shown is None:
                    report.problem(f"nothing shows that {waiver.implementation} {waiver.claim}")
        yield report


def check_operator(
    spec: type[OpSpec],
    rng: random.Random,
    instances: int = 20,
    runtimes: Mapping[str, Runtime] = REFERENCE,
    waivers: Waivers = NONE,
    questions: Iterable[str] = (),
) -> CheckReport:
    """Check one operator on about `instances` instances of each kind.

    Every signature is covered, so an operator with more signatures gets more forward instances.
    runtimes: by name, all of which are asked for values. A difference from an
    authority (STRICT) is a problem, one from another runtime only if none agrees with `torch`.
    waivers: where differences are expected. questions: names in QUESTIONS; default: all.
    """
    check = _Check(spec, rng, runtimes, waivers)
    for name in questions or QUESTIONS:
        ask, count = QUESTIONS[name]
        for signature in check.dealt(count(spec, instances)):
            try:
                ask(check, signature)
            except Exception as error:
                binding = {k: v.value for k, v in signature[0].items()}
                check.report.problem(f"{name} with {binding}: {type(error).__name__}: {error}")
    return check.report


class _Check:
    """Asks one operator, and counts the answers in its report."""

    def __init__(
        self,
        spec: type[OpSpec],
        rng: random.Random,
        runtimes: Mapping[str, Runtime],
        waivers: Waivers,
    ) -> None:
        self.spec, self.runtimes, self.waivers = spec, runtimes, waivers
        self.draw = Draw(rng, draws.SIZES)
        self.values = np.random.default_rng(rng.getrandbits(32))
        self.report = CheckReport(spec.name)
        self.dice = random.Random(spec.name)
        """Decides which models are old, so that the instances do not depend on it."""
        self.old = self.dice.randrange(OPSETS[0], WHOLE)
        """The opset before WHOLE at which the operator is asked."""
        self.kinds = [(s, o) for s in spec.signatures() if (o := legal_opsets(spec, s))]
        self.legal: list[int] = []
        """Opsets at which ONNX admits the signature at hand."""
        if not self.kinds:
            self.report.problem(
                "no opset of ONNX has it with any dtypes; where ONNX has no operator of the name, "
                "`def onnx` says which others it is"
            )

    def dealt(self, count: int) -> Iterator[SignatureTypes]:
        """`count` signatures that some opset admits, in random order, each about equally often."""
        while self.kinds and count > 0:
            for signature, legal in self.draw.shuffled(self.kinds)[:count]:
                self.legal = legal
                yield signature
            count -= len(self.kinds)

    # -- soundness ----------------------------------------------------------------------------

    def forward(self, signature: SignatureTypes) -> None:
        lo, hi = self.spec.inputs[0].ranks
        rank = self.draw.integer(lo, min(hi, RANKS - 1))
        instance = draws.solved(self.spec, signature, rank, self.draw)
        if instance is None:
            self.report.unsolved += 1
            return
        self.report.forward += 1
        self.sound(instance, signature)

    def backward(self, signature: SignatureTypes) -> None:
        for rank in self.draw.shuffled(range(RANKS)):
            preceding = draws.preceding(self.spec, signature, rank, self.draw)
            if preceding is not None:
                self.report.backward += 1
                self.sound(preceding[0], signature, preceding[1])
                return
        self.report.unsolved += 1

    def empty(self, signature: SignatureTypes) -> None:
        """Admitted instances without elements run and have the types and values claimed."""
        lo, hi = self.spec.inputs[0].ranks
        rank = self.draw.integer(max(lo, 1), min(hi, RANKS))
        instance = draws.emptied(self.spec, signature, rank, self.draw)
        if instance is None or is_rejected(instance):
            return
        arrays, _ = references.inputs_for(instance, self.values)
        self.report.empty += self.computes(instance, signature, arrays)

    def sound(
        self, instance: OpInstance, signature: SignatureTypes, wanted: TensorType | None = None
    ) -> None:
        """A solved instance must pass `check` and have the claimed types and values."""
        op, types, problem = instance.op, instance.types, self.report.problem
        try:
            op.check(*types)
        except ConstraintError as error:
            problem(f"{instance}: solved but not admitted: {error}")
            return
        before = repr(op.__dict__)
        once, again = (
            (repr(list(op.requires(*types))), repr(op.type_transfer(*types))) for _ in range(2)
        )
        if once != again or repr(op.__dict__) != before:
            problem(f"{instance}: requires or type_transfer is not pure")
        restored = type(op).from_json(json.loads(json.dumps(op.to_json())))
        if restored.attributes != op.attributes:
            problem(f"{instance}: JSON gives {restored!r}")
        output = op.type_transfer(*types)[0]
        if wanted is not None and not output.same(wanted):
            problem(f"{instance}: inferred backward for {wanted}, yields {output}")
        cost = op.cost(*types)
        if not isinstance(cost, int) or cost < 0:
            problem(f"{instance}: cost is {cost!r}, not a natural number")
        arrays, inside = references.inputs_for(instance, self.values)
        if inside:
            self.computes(instance, signature, arrays)

    def computes(
        self, instance: OpInstance, signature: SignatureTypes, arrays: references.Arrays
    ) -> bool:
        """Whether PyTorch computes the claimed types; then ONNX has to have types and values."""
        op, problem = instance.op, self.report.problem
        outputs = op.type_transfer(*instance.types)
        try:
            actual = [references.type_of(a) for a in references.run_torch(op, arrays)]
        except Exception as error:
            problem(f"{instance}: torch raises {brief(error)}")
            return False
        if len(actual) != len(outputs) or not all(a.same(b) for a, b in zip(actual, outputs)):
            problem(f"{instance}: torch yields {actual}, type_transfer {outputs}")
            return False
        expected = Expected.of(op, arrays)
        for text in numeric_faults(op, arrays, expected):
            problem(f"{instance}: {text}")
        opsets = [o for o in self.legal if not op.refusal(DIRECT, o, *instance.types)]
        if not opsets:
            return True
        opset = self.draw.choice(opsets)
        model = references.one_node(instance, outputs, opset)
        if old := self.old_model(instance, signature, outputs):
            opset, model = self.old, old
        known = self.waivers.covering(op, opset, instance.types)
        question = ReferenceQuestion(instance, opset, model, arrays, expected, known)
        try:
            other = references.other_types(model, outputs)
        except references.RejectedByOnnx as error:
            problem(f"{question}: ONNX rejects: {error}")
            return True
        if other:
            problem(f"{question}: ONNX infers {other}, not {outputs}")
        else:
            self.ask(question)
        return True

    def old_model(
        self, instance: OpInstance, signature: SignatureTypes, outputs: Sequence[TensorType]
    ) -> onnx.ModelProto | None:
        """Now and then the model of an instance at the old opset; None if there is none, since
        generation leaves out what cannot be written there."""
        if self.dice.random() > OLD or not legal_before(self.spec, signature, self.old):
            return None
        if instance.op.refusal(DIRECT, self.old, *instance.types):
            return None
        with suppress(MaterializeError, OpsetError, NotWritten, references.RejectedByOnnx):
            model = references.one_node(instance, outputs, self.old)
            references.other_types(model, outputs)
            return model
        return None

    def ask(self, question: ReferenceQuestion) -> None:
        """Compare `torch` with every runtime, and count the answers."""
        answers = {name: question.ask(name, run) for name, run in self.runtimes.items()}
        given = {answer for answer, _ in answers.values()}
        for name, (answer, text) in answers.items():
            self.report.answers.setdefault(name, Counter())[answer] += 1
            if answer == WAIVED:
                self.report.waived.update(question.on(name))
            elif answer == DIFFERS and (name in STRICT or AGREES not in given):
                self.report.problem(f"{question}: {text} ({name}), and no waiver is declared there")
        self.report.unconfirmed += given.isdisjoint((AGREES, DIFFERS))

    # -- tightness and rejection --------------------------------------------------------------

    def tightness(self, signature: SignatureTypes) -> None:
        """What PyTorch runs and `requires` refuses is refused needlessly, if ONNX agrees."""
        instance = draws.blind(self.spec, signature, self.draw)
        actual, arrays = self.torch_accepts(instance)
        if not actual:
            return
        rejected = is_rejected(instance)
        needless = rejected and self.onnx_agrees(instance, arrays, actual)
        self.report.accepted += needless or not rejected
        self.report.refused += needless
        self.report.torch_only += rejected and not needless

    def rejection(self, signature: SignatureTypes) -> None:
        """An instance with one broken condition is refused; rightly, if PyTorch or ONNX agree."""
        instance = draws.broken(self.spec, signature, self.draw)
        if instance is None:
            return
        self.report.broken += 1
        if not is_rejected(instance):
            self.report.problem(f"{instance}: check admits it with one condition broken")
        actual, arrays = self.torch_accepts(instance)
        self.report.torch_rejects += actual is None
        if actual:
            self.report.needless += self.onnx_agrees(instance, arrays, actual)

    def torch_accepts(
        self, instance: OpInstance
    ) -> tuple[list[TensorType] | None, references.Arrays]:
        """The types of PyTorch's results, and the inputs; None if PyTorch rejects them.

        No types if the inputs leave the domain or a result has no elements, which proves nothing.
        """
        try:
            arrays, inside = references.inputs_for(instance, self.values)
            if not inside or not _affordable(instance):
                return [], arrays
            actual = [references.type_of(a) for a in references.run_torch(instance.op, arrays)]
        except Exception:
            return None, []
        return (actual if all(t.numel for t in actual) else []), arrays

    def onnx_agrees(
        self, instance: OpInstance, arrays: references.Arrays, actual: Sequence[TensorType]
    ) -> bool:
        """Whether ONNX infers the types and a runtime computes the values that PyTorch gives."""
        try:
            opset = self.legal[-1]
            model = references.one_node(instance, actual, opset)
            if references.other_types(model, actual):
                return False
            known = self.waivers.covering(instance.op, opset, instance.types)
            expected = Expected.of(instance.op, arrays)
            question = ReferenceQuestion(instance, opset, model, arrays, expected, known)
            agrees = any(question.ask(n, run)[0] == AGREES for n, run in self.runtimes.items())
        except Exception:
            return False
        if agrees:
            self.report.example = self.report.example or f"refused: {instance}"
        return agrees

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


QUESTIONS: Mapping[str, tuple[Callable[[_Check, SignatureTypes], None], Count]] = {
    "forward": (_Check.forward, lambda spec, n: max(n, len(spec.signatures()))),
    "backward": (_Check.backward, lambda spec, n: n),
    "tightness": (_Check.tightness, lambda spec, n: 3 * n),
    "rejection": (_Check.rejection, lambda spec, n: n),
    "empty": (_Check.empty, lambda spec, n: n * spec.takes_empty),
    "patterns": (_Check.patterns, lambda spec, n: 1),
}
"""What is asked of one signature, and how often for a spec and a number of instances."""


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
