"""What ONNX admits at an opset: signatures of operators, and the versions of operators.

Dtypes entered ONNX's operators one by one (bfloat16 at opset 13, 16, 22 ..., small integers at 12,
14 ...), so specs list all dtypes that any opset admits, and those of a given opset are decided
here: in the schema where the lowering is one ONNX operator of the spec's name, otherwise by type
inference over the lowering of one instance.

An observation at one opset holds for every other opset at which the operator is written by the
same versions of ONNX's operators, so nothing needs to be asked again there.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

import onnx
from packaging.version import Version

from nnfuzz.base.files import write_atomically
from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.untrusted import read_json
from nnfuzz.check.instances import OpInstance, SignatureTypes, fixed_output, solved
from nnfuzz.check.runtimes import one_node, unknown_operators
from nnfuzz.generate.catalog import signature_key
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.opset_imports import OWN_DOMAINS, domain_version
from nnfuzz.materialize.emit import OPSETS
from nnfuzz.materialize.errors import GraphFault
from nnfuzz.materialize.older import WHOLE
from nnfuzz.materialize.protos import type_name
from nnfuzz.materialize.walk import graphs, qualified_name
from nnfuzz.operators.draw import Draw, Sizes
from nnfuzz.operators.operator import OpSpec, dtypes_of
from nnfuzz.operators.registry import BUILT_IN, specs_digest


class Judgements:
    """The judgements of earlier processes, to which those of this one are added."""

    def __init__(self, path: Path | None = None) -> None:
        """path: of the file; without one nothing is kept. A damaged file counts as empty."""
        self._path = path
        self._answers = self._kept()
        self._added = False

    @classmethod
    def kept_in(cls, folder: str | Path) -> Judgements:
        """The judgements on the operators of this version of nnfuzz; "": nothing is kept."""
        if not folder:
            return NOTHING_KEPT
        about = f"{specs_digest()} {version('onnx')}".encode()
        digest = hashlib.sha256(about).hexdigest()[:16]
        return cls(Path(folder) / f"judgements-{digest}.json")

    def answer(self, spec: type[OpSpec], about: str, form: str, judge: Callable[[], str]) -> str:
        """The judgement on an operator: the kept one, or else the one that `judge` gives now.

        about: the question. form: a regular expression; the judge is asked again where the kept
        answer does not match it.
        """
        if not spec.__module__.startswith(f"{BUILT_IN}."):
            return judge()
        key = f"{spec.name}@{about}"
        kept = self._answers.get(key)
        if kept is None or not re.fullmatch(form, kept):
            kept = self._answers[key] = judge()
            self._added = True
        return kept

    def save(self) -> None:
        """Adds what is new to the file; a folder that cannot be written costs only time.

        Of two processes that write at the same moment the later one wins.
        """
        if self._added and self._path:
            self._added = False
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self._path, json.dumps(self._kept() | self._answers).encode())

    def _kept(self) -> dict[str, str]:
        with suppress(OSError, Unreadable):
            return read(dict[str, str], read_json(self._path)) if self._path else {}
        return {}


NOTHING_KEPT = Judgements()
"""Judgements that are not kept, for callers with few operators."""


SIZES = Sizes(max_dim=(1, 16, 12, 8, 8, 8, 8))
RANKS = (2, 3, 4, 1, 5, 0)
"""Ranks of the first input that are tried for an instance."""
DRAWS = 6
"""Instances of an operator that are looked at for different lowerings."""
Types = frozenset[str]
LATE: Mapping[tuple[str, int], tuple[str, Types]] = {
    ("Attention", 25): ("1.23.0", frozenset(("left_window_size", "right_window_size"))),
    ("GlobalLpPool", 22): ("1.18.0", frozenset(("tensor(bfloat16)",))),
}
"""Attributes and types by operator and version that a later release of onnx added than the one that
introduced the opset: a compiler that is built with the older one rightly refuses them."""


def illegal(
    specs: Iterable[type[OpSpec]],
    opset: int,
    release: str | None = None,
    judgements: Judgements = NOTHING_KEPT,
) -> frozenset[str]:
    """Keys (see `signature_key`) of the signatures that have no valid model at an opset.

    release: of onnx, whose schemas count; None for the installed one. judgements: of earlier
    processes.
    """
    return frozenset(
        key
        for spec in specs
        for key, legal in _judged(spec, opset, release, judgements).items()  # type: ignore[arg-type]
        if not legal
    )


def legal_signatures(
    spec: type[OpSpec], judgements: Judgements = NOTHING_KEPT
) -> list[SignatureTypes]:
    """The signatures of an operator that have a valid model at the newest opset."""
    judged = _judged(spec, OPSETS[1], None, judgements)  # type: ignore[arg-type]
    return [s for s in spec.signatures() if judged[signature_key(spec, *s)]]


def legal_before(spec: type[OpSpec], signature: SignatureTypes, opset: int) -> bool:
    """Whether some instances of a signature have a valid model at an opset before WHOLE."""
    return _judged(spec, opset)[signature_key(spec, *signature)]  # type: ignore[arg-type]


@cache
def _judged(
    spec: type[OpSpec],
    opset: int,
    release: str | None = None,
    judgements: Judgements = NOTHING_KEPT,
) -> Mapping[str, bool]:
    """Whether each signature, by its key, has a valid model."""
    signatures = spec.signatures()
    about = f"{opset}/{release}" if release else str(opset)
    ask = partial(_legal, spec, opset, release)
    digits = judgements.answer(spec, about, f"[01]{{{len(signatures)}}}", ask)
    pairs = zip(signatures, digits, strict=True)
    return {signature_key(spec, *signature): digit == "1" for signature, digit in pairs}


def _legal(spec: type[OpSpec], opset: int, release: str | None) -> str:
    """A digit for each signature of an operator: 1 if it has a valid model, else 0."""
    signatures = spec.signatures()
    if spec.since > opset or not _defined(spec, opset):
        return "0" * len(signatures)
    judging = _Schema if names_one_operator(spec) and opset >= WHOLE else _Lowering
    judge = judging(spec, opset, release)
    return "".join("01"[judge.admits(signature)] for signature in signatures)


def late(operator: str, opset: int, release: str | None) -> Types:
    """The attributes and types of an operator that a release of onnx lacks; none for None."""
    if release is None or not onnx.defs.has(operator):
        return frozenset()
    since = onnx.defs.get_schema(operator, max_inclusive_version=opset).since_version
    added, names = LATE.get((operator, since), ("0", frozenset()))
    return names if Version(added) > Version(release) else frozenset()


def names_one_operator(spec: type[OpSpec]) -> bool:
    """Whether the lowering of a spec is the one ONNX operator of its name."""
    return spec.onnx is OpSpec.onnx and bool(onnx.defs.has(spec.name))


def _defined(spec: type[OpSpec], opset: int) -> bool:
    """Whether the opset has the ONNX operator of a spec's name, if it lowers to that; an operator
    of another domain must not be deprecated."""
    short = spec.name.rpartition(".")[2]
    if spec.onnx_domain and onnx.defs.has(short, spec.onnx_domain):
        version = domain_version(spec.onnx_domain, opset)
        try:
            return not onnx.defs.get_schema(short, version, spec.onnx_domain).deprecated
        except onnx.defs.SchemaError:
            return False
    if not names_one_operator(spec):
        return True
    try:
        onnx.defs.get_schema(spec.name, max_inclusive_version=opset)
    except onnx.defs.SchemaError:
        return False
    return True


def lowered(spec: type[OpSpec], opset: int) -> Iterator[onnx.ModelProto]:
    """Models of single instances of an operator, which lower to different ONNX operators.

    Dtypes that an opset lacks are often written in other ways, so each instance is written with
    dtypes of every width.
    """
    judge = _Lowering(spec, opset)
    widths = {tuple(dtype.itemsize for dtype in s[0].values()): s for s in spec.signatures()}
    for instance in judge.instances:
        yield judge.model(instance)
        for signature in widths.values():
            with suppress(GraphFault, ArithmeticError, LookupError, TypeError, ValueError):
                yield judge.model(judge._retyped(instance, signature))


# -- one ONNX operator ------------------------------------------------------------------------


class _Schema:
    """The type constraints of the ONNX operator that has a spec's name."""

    def __init__(self, spec: type[OpSpec], opset: int, release: str | None) -> None:
        self.spec = spec
        schema = onnx.defs.get_schema(spec.name, max_inclusive_version=opset)
        lacking = late(spec.name, opset, release)
        named = {
            c.type_param_str: frozenset(c.allowed_type_strs) - lacking
            for c in schema.type_constraints
        }
        self.variables = [i.type_str for i in schema.inputs]
        self.inputs = [_allowed(variable, named) for variable in self.variables]
        self.output = _allowed(schema.outputs[0].type_str, named)

    def admits(self, signature: SignatureTypes) -> bool:
        binding, output = signature
        dtypes = dtypes_of(self.spec, len(self.spec.inputs), binding)
        places = [min(i, len(self.inputs) - 1) for i in range(len(dtypes))]
        bound: dict[str, DType] = {}
        return type_name(output) in self.output and all(
            type_name(dtype) in self.inputs[place]
            and bound.setdefault(self.variables[place], dtype) is dtype
            for place, dtype in zip(places, dtypes)
        )


def _allowed(type_str: str, named: dict[str, Types]) -> Types:
    return named.get(type_str, frozenset((type_str,)))


# -- any lowering -----------------------------------------------------------------------------


class _Lowering:
    """Type inference over the lowering of an operator; shapes are left out of it.

    A few instances that lower to different ONNX operators are retyped for all signatures, since
    most lowerings care for dtypes only where they emit constants; a signature that does not bear
    that gets an instance of its own. A signature is legal if all of its instances are.
    """

    def __init__(self, spec: type[OpSpec], opset: int, release: str | None = None) -> None:
        self.spec, self.opset, self.release = spec, opset, release
        self.instances = self._variants()

    def admits(self, signature: SignatureTypes) -> bool:
        """True also where no instance is found; the checks of operators report that."""
        try:
            if self.instances:
                return all(self._typed(self._retyped(i, signature)) for i in self.instances)
        except (GraphFault, ArithmeticError, LookupError, TypeError, ValueError):
            pass
        own = _own_instance(self.spec, self.spec.signatures().index(signature))  # type: ignore[arg-type]
        try:
            return own is None or self._typed(own)
        except GraphFault:
            if self.opset < WHOLE:  # it has no form there
                return False
            raise

    def _variants(self) -> list[OpInstance]:
        by_lowering: dict[tuple[str, ...], OpInstance] = {}
        for instance in _instances(self.spec):  # type: ignore[arg-type]
            try:
                lowered = tuple(node.op_type for node in self.model(instance).graph.node)
            except GraphFault:
                if self.opset < WHOLE:  # another instance may have a form there
                    continue
                raise
            by_lowering.setdefault(lowered, instance)
        return list(by_lowering.values())

    def _retyped(self, instance: OpInstance, signature: SignatureTypes) -> OpInstance:
        dtypes = dtypes_of(self.spec, len(instance.types), signature[0])
        op = fixed_output(type(instance.op)(**instance.op.attributes), signature[1])
        types = (t.with_dtype(d) for t, d in zip(instance.types, dtypes))
        return OpInstance(op, tuple(types))

    def model(self, instance: OpInstance) -> onnx.ModelProto:
        return one_node(instance, instance.op.type_transfer(*instance.types), self.opset)

    def _typed(self, instance: OpInstance) -> bool:
        model = self.model(instance)
        if unknown_operators(model):  # inference passes over them
            return False
        if any(
            attribute.name in late(node.op_type, self.opset, self.release)
            for node in model.graph.node
            if node.domain in OWN_DOMAINS
            for attribute in node.attribute
        ):
            return False
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.ClearField("shape")
        try:
            onnx.shape_inference.infer_shapes(model, check_type=True)
        except onnx.shape_inference.InferenceError:
            return False
        return True


@cache
def _instances(spec: type[OpSpec]) -> Sequence[OpInstance]:
    """Instances of an operator's first signature; solving takes longer than judging."""
    draw = Draw(random.Random(spec.name), SIZES)
    found = [_drawn(spec, signature, draw) for signature in spec.signatures()[:1] * DRAWS]
    return [instance for instance in found if instance is not None]


@cache
def _own_instance(spec: type[OpSpec], place: int) -> OpInstance | None:
    """An instance of the operator's signature at a place among all."""
    draw = Draw(random.Random(f"{spec.name} {place}"), SIZES)
    return _drawn(spec, spec.signatures()[place], draw)


def _drawn(spec: type[OpSpec], signature: SignatureTypes, draw: Draw) -> OpInstance | None:
    lo, hi = spec.inputs[0].ranks
    ranks = [rank for rank in RANKS if lo <= rank <= hi]
    found = (solved(spec, signature, rank, draw) for rank in ranks)
    return next((instance for instance in found if instance is not None), None)


_REACHED = tuple(range(OPSETS[0], OPSETS[1] + 1))


@cache
def version_of(
    spec: type[OpSpec], opset: int, judgements: Judgements = NOTHING_KEPT
) -> tuple[int, ...]:
    """The versions at an opset of the ONNX operators that a spec is lowered to, sorted by name;
    0 for one that the opset does not have.

    judgements: of earlier processes.
    """
    return tuple(_since(name, opset) for name in _written(spec, judgements))  # type: ignore[arg-type]


@cache
def newest_of_version(
    spec: type[OpSpec],
    opset: int,
    opsets: tuple[int, ...],
    judgements: Judgements = NOTHING_KEPT,
) -> int:
    """The newest of `opsets` up to which the operator has the same version as at `opset`."""
    newest, own = opset, version_of(spec, opset, judgements)  # type: ignore[arg-type]
    for later in sorted(o for o in opsets if o > opset):
        if version_of(spec, later, judgements) != own:  # type: ignore[arg-type]
            break
        newest = later
    return newest


def admitted_by_schema(
    config: GenerateConfig,
    specs: Iterable[type[OpSpec]],
    release: str | None = None,
    judgements: Judgements = NOTHING_KEPT,
) -> GenerateConfig:
    """The configuration with the signatures refused that ONNX does not admit at its opset.

    Each version of an operator is judged once, at its newest opset. release: of onnx, whose schemas
    count; None for the installed one. judgements: of earlier processes.
    """
    judged: dict[int, list[type[OpSpec]]] = {}
    for spec in specs:
        opset = config.opset
        if spec.since <= opset:
            opset = newest_of_version(spec, opset, _REACHED, judgements)  # type: ignore[arg-type]
        judged.setdefault(opset, []).append(spec)
    refused = (illegal(found, opset, release, judgements) for opset, found in judged.items())
    return replace(config, refused=config.refused.union(*refused))


def legal_opsets(spec: type[OpSpec], signature: SignatureTypes) -> list[int]:
    """The opsets within reach of direct emission at which every instance of a signature has a valid
    model, if any has; before WHOLE some instances have none.
    """
    key = signature_key(spec, *signature)
    opsets = range(max(WHOLE, spec.since), OPSETS[1] + 1)
    judged = {o: newest_of_version(spec, o, _REACHED) for o in opsets}  # type: ignore[arg-type]
    refused = {o: key in illegal([spec], o) for o in dict.fromkeys(judged.values())}
    return [o for o in opsets if not refused[judged[o]]]


@cache
def _written(spec: type[OpSpec], judgements: Judgements) -> tuple[str, ...]:
    """The ONNX operators of a spec's lowering, at the oldest opsets and at the newest."""
    if names_one_operator(spec):
        return (spec.name,)
    names = judgements.answer(spec, "written", r"\S+( \S+)*", partial(_all_names, spec))
    return tuple(names.split())


def _all_names(spec: type[OpSpec]) -> str:
    """WHOLE is among the opsets since many forms do not exist before it."""
    opsets = {max(since, spec.since) for since in (OPSETS[0], WHOLE)} | {OPSETS[1]}
    return " ".join(sorted({name for opset in opsets for name in _names(spec, opset)}))


def _names(spec: type[OpSpec], opset: int) -> Iterator[str]:
    for model in lowered(spec, opset):
        for graph in graphs(model.graph):
            yield from map(qualified_name, graph.node)


@cache
def _since(name: str, opset: int) -> int:
    domain, _, name = name.rpartition(".")
    if domain and not onnx.defs.has(name, domain):  # which models import at version 1
        return 1
    try:
        version = domain_version(domain, opset)
        return int(onnx.defs.get_schema(name, version, domain).since_version)
    except onnx.defs.SchemaError:
        return 0
