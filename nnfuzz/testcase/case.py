"""The test case: a model with inputs and reference outputs. Imports neither torch nor onnx."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from nnfuzz.backend.target import ONNX
from nnfuzz.base.reading import read
from nnfuzz.base.writing import UNWRITTEN
from nnfuzz.ir.sizes import at_one_size, by_copy, in_call, name_and_copy, of_call
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.ir.view import NO_GRAPH, GraphView
from nnfuzz.materialize.opsets import exporter_of, is_called, opset_of, writer
from nnfuzz.operators.draw import Sizes
from nnfuzz.sandbox.wire import encode
from nnfuzz.testcase.identity import TestId
from nnfuzz.testcase.settings import EMPTY, CaseSettings
from nnfuzz.vary.faults.fault import Fault


class ModelError(ValueError):
    """No test case can be made of a model or of inputs; the message has the reason."""


class NoReference(ModelError):
    """A model that may be valid, and none of whose outputs nnfuzz can compute: compilers can be
    compared with each other, on inputs that suit it.
    """


ROOMY = 6
"""Nodes of graphs that may become larger for a skeleton: settings with fewer want small graphs."""


@dataclass(frozen=True)
class CaseConfig(CaseSettings):
    """Everything besides (seed, index) that decides a test case; JSON-able.

    Beside what people set:
    unrewritten: what no rewrite may bring in, of nnfuzz.vary.rewrite.rewriting.FEATURES.
    descend: whether inputs are searched for by gradient descent before a graph is given up.
    onnx_release: of onnx, whose schemas count; None: the installed one.
    others: further exporters, each with its opset, which take turns with `exporter`.
    opsets: by exporter, those of which one is drawn for each model; others keep to their opset.
    newest: the newest of all opsets that are drawn, in the configuration of one test case, which
    reduction tries last; 0 where the opset is given.
    drawn: in such a configuration, all opsets that are drawn for its exporter.
    among: how many exporters there are, where only one of them is looked at.
    interface: kinds of inputs and outputs that a backend refuses (nnfuzz.generate.interface).
    refused: written signatures (nnfuzz.ir.support_key) that a chosen backend does not support.
    avoid: signatures and edges that are left out since their failures are known.
    unrestrained: the share of the tests that do not keep to `avoid`.
    plugins: paths of files with further operator specs.
    seed_digest: of the contents of the seed models (nnfuzz.testcase.vocabulary).
    sizes: the limits of tensors.
    """

    unrewritten: tuple[str, ...] = ()
    descend: bool = False
    onnx_release: str | None = None
    others: tuple[tuple[str, int], ...] = ()
    opsets: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    newest: int = 0
    drawn: tuple[int, ...] = ()
    among: int = 1
    interface: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    unrestrained: float = 0.02
    plugins: tuple[str, ...] = ()
    seed_digest: str = ""
    sizes: Sizes = field(default_factory=Sizes)

    @property
    def skeleton_share(self) -> float:
        """The share of the graphs that get a skeleton."""
        return self.skeletons if self.nodes >= ROOMY else 0.0

    def restrains(self, seed: int, index: int) -> bool:
        """Whether the test case of an index keeps away from the items in `avoid`."""
        draw = zlib.crc32(f"{seed}/{index}/unrestrained".encode()) / 2**32
        return bool(self.avoid) and draw >= self.unrestrained

    @property
    def empty_share(self) -> float:
        """The share of the graphs that may have empty tensors."""
        return EMPTY if self.edges else 0.0

    @property
    def rewrite_share(self) -> float:
        """The share of the models that are rewritten."""
        return self.empty_share if self.rewrites is None else self.rewrites

    @property
    def exporters(self) -> tuple[str, ...]:
        """The names of all exporters that take turns, `exporter` first."""
        return self.exporter, *(name for name, _ in self.others)

    def written_by(self, opsets: Mapping[str, int]) -> CaseConfig:
        """The configuration with these exporters instead, each at its opset."""
        (exporter, opset), *others = opsets.items()
        return replace(self, exporter=exporter, opset=opset, others=tuple(others))

    def drawing(self, exporter: str) -> tuple[int, ...]:
        """The opsets that are drawn for an exporter, the newest first; none where one is given."""
        return tuple(sorted(self.opsets.get(exporter, ()), reverse=True))

    def writers(self, exporter: str) -> tuple[str, ...]:
        """The exporter at each opset that is drawn, the newest first; itself if none is drawn."""
        return tuple(writer(exporter, o) for o in self.drawing(exporter)) or (exporter,)

    @property
    def writer(self) -> str:
        """The writer of models in a configuration of one exporter: the exporter, or the writer
        where the opset was drawn.
        """
        return writer(self.exporter, self.opset) if self.newest else self.exporter

    def only(self, name: str) -> CaseConfig:
        """The configuration of the test cases of an exporter, or of a writer. Raises: KeyError."""
        exporter = exporter_of(name)
        given = {self.exporter: self.opset, **dict(self.others)}[exporter]
        return replace(
            self,
            exporter=exporter,
            opset=opset_of(name) or given,
            others=(),
            opsets={},
            drawn=self.drawing(exporter) or self.drawn,
            newest=max((self.newest, *(o for drawn in self.opsets.values() for o in drawn))),
            among=max(self.among, len(self.exporters)),
            refused=_of(name, self.refused),
            avoid=_of(name, self.avoid),
        )

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> CaseConfig:
        """Raises: Unreadable."""
        return read(cls, data)


def _of(name: str, keys: Iterable[str]) -> tuple[str, ...]:
    """The keys that hold for an exporter or a writer, without its name; and those of the same
    exporter at the opset of a writer and at newer ones as they are: which of them hold depends on
    the versions of operators (nnfuzz.check.versions).
    """
    exporter, opset = exporter_of(name), opset_of(name)
    own: list[str] = []
    for key in map(SupportKey.parse, keys):
        if key.exporter in ("", exporter):
            own.append(str(key.signature))
        elif exporter_of(key.exporter) == exporter:
            own += [str(key)] if opset_of(key.exporter) >= opset else []
    return tuple(own)


@dataclass(frozen=True, repr=False)
class TestCase:
    """One model with its inputs, and the outputs that native PyTorch computes from them.

    id: with the configuration it determines everything but times. graph: with a copy for each call
    (nnfuzz.ir.sizes) if the model is called several times, as its exporter says (is_called). model:
    serialized ONNX. inputs, weights, expected: arrays by name, in the dtypes of the graph. seconds:
    per phase (generate, materialize, export, inputs), of wall time. discarded: graphs that were
    given up for want of inputs before this one. plain: of a rewritten model what it was before,
    else empty; `exporter` then names the steps (vary/rewrite/rewriting.py). variations: names of
    those that made it (nnfuzz.vary), such as "large", "motif:Gelu" with "~" and its kind behind a
    near miss, "rewrite:times_one". generated_for: the exporter, or the writer
    (nnfuzz.materialize.opsets), whose limits the graph keeps; its exporter is `exporter` unless the
    model has a symbolic dimension or was rewritten. fault: why the model must be refused; then
    graph and `plain` are what it was before, plain_inputs what `plain` is run with, and there is
    nothing to expect.
    """

    __test__ = False  # not a pytest class

    id: TestId
    graph: GraphView
    model: bytes = field(metadata=UNWRITTEN)
    inputs: dict[str, np.ndarray] = field(metadata=UNWRITTEN)
    weights: dict[str, np.ndarray] = field(metadata=UNWRITTEN)
    expected: dict[str, np.ndarray] = field(metadata=UNWRITTEN)
    exporter: str = "torchscript"
    opset: int = 20
    seconds: dict[str, float] = field(default_factory=dict)
    discarded: int = 0
    variations: tuple[str, ...] = ()
    generated_for: str = ""
    plain: bytes = field(default=b"", metadata=UNWRITTEN)
    fault: Fault | None = None
    plain_inputs: dict[str, np.ndarray] = field(default_factory=dict, metadata=UNWRITTEN)

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self.inputs) or "none", ", ".join(self.expected)
        count = len(self.graph.nodes)
        return f"TestCase({self.id}: {count} operators, inputs {inputs}, outputs {outputs})"

    @property
    def valid(self) -> TestCase | None:
        """Of a model that must be refused the one without its fault; None for any other."""
        if self.fault is None or not self.plain:
            return None
        own = {"model": self.plain, "inputs": self.plain_inputs, "plain_inputs": {}}
        return replace(self, plain=b"", fault=None, **own)  # type: ignore[arg-type]

    def source(self, form: str) -> bytes:
        """The input of a backend that reads a form: the model, or a frame of graph and weights (see
        nnfuzz.backend.modules), which is called as the model is where all calls are of one size.
        """
        if form == ONNX:
            return self.model
        repeats = is_called(self.exporter) and at_one_size(self.graph)
        graph = of_call(self.graph, 0) if repeats else self.graph
        return encode({"graph": graph.to_json()}, self.weights)

    @property
    def fed(self) -> list[dict[str, np.ndarray]]:
        """The inputs of each call, in their order, by the names of the model's inputs."""
        return by_copy(self.inputs) if is_called(self.exporter) else [self.inputs]

    def in_model(self, name: str) -> str:
        """The name in the model of a value of any call."""
        return name_and_copy(name)[0] if is_called(self.exporter) else name

    def call(self, number: int) -> TestCase:
        """The same model called once, with the inputs of one of its calls (nnfuzz.ir.sizes)."""
        inputs, expected = (in_call(own, number) for own in (self.inputs, self.expected))
        return replace(self, graph=of_call(self.graph, number), inputs=inputs, expected=expected)

    def digest(self) -> str:
        """16 hexadecimal digits over the graph, the model and all arrays: equal cases have one."""
        graph = json.dumps([self.graph.to_json(), self.exporter], sort_keys=True)
        digest = hashlib.sha256(graph.encode())
        digest.update(self.model)
        for group in _GROUPS:
            for name, array in sorted(getattr(self, group).items()):
                digest.update(f"{group}/{name} {array.dtype.str} {array.shape} ".encode())
                digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()[:16]

    def checked(self) -> TestCase:
        """The same. Raises: ValueError if its graph is inconsistent, or if there are no
        arrays for what it declares; a model with a fault need not take what the graph does.
        """
        graph = self.graph.checked()
        missing = {*graph.inputs} - {*self.inputs} or {*self.expected} - {*graph.outputs}
        if missing and not self.fault:
            raise ValueError("inputs or outputs that are not those of the graph")
        return self


_GROUPS = ("inputs", "weights", "expected", "plain_inputs")


@dataclass(frozen=True)
class NotProduced:
    """Why there is no test case.

    stage: generate, inputs (the search failed), export (the exporter failed), fault (a defect
    of nnfuzz itself). message: for people; traceback where an exception caused it. unsupported: the
    exporter says that it does not implement this. generated_for: as in `TestCase`.
    """

    id: TestId
    stage: str
    message: str
    error_type: str = ""
    traceback: str = ""
    unsupported: bool = False
    graph: GraphView = NO_GRAPH
    seconds: dict[str, float] = field(default_factory=dict)
    generated_for: str = ""

    def checked(self) -> NotProduced:
        """The same. Raises: ValueError if its graph is inconsistent."""
        self.graph.checked()
        return self

    def digest(self) -> str:
        """16 hexadecimal digits over the graph and why nothing came of it."""
        text = json.dumps(
            [self.graph.to_json(), self.generated_for, self.stage, self.error_type], sort_keys=True
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]
