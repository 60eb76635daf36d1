"""Producer services without PyTorch: identity models whose doc_string says what shall happen."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nnfuzz.compare.flip import PYTORCH
from nnfuzz.compare.mismatch import Mismatch, MismatchKind, Verdict
from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.sandbox.job import Job, Service, does
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.identity import Probe, TestId
from nnfuzz.testcase.jobs import (
    Configure,
    Judge,
    ListVocabulary,
    Lower,
    Produce,
    Vocabulary,
)

GENERATED_FOR = "direct"
KEY = "Identity(float32)->float32"
MORE = [f"{op}(float32)->float32" for op in ("Relu", "Conv", "Abs", "Exp")]
VARIABLES = {op: [0] for op in ("Identity", "Relu", "Conv", "Abs", "Exp")}
GRAPH = GraphView.from_json(
    {
        "schema": 1,
        "values": [["x", "float32", [4]], ["y", "float32", [4]]],
        "nodes": [{"op": "Identity", "attributes": {}, "inputs": ["x"], "outputs": ["y"]}],
        "inputs": ["x"],
        "weights": [],
        "outputs": ["y"],
    }
)


def model(doc: str) -> bytes:
    """An identity, unless the doc_string says that the model is wrong everywhere."""
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Neg" if doc == "wrong everywhere" else "Identity", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    opsets = [helper.make_opsetid("", 20)]
    made = helper.make_model(graph, doc_string=doc, opset_imports=opsets, ir_version=9)
    return made.SerializeToString()


def chain(operators: list[str]) -> GraphView:
    """The graph of operators one behind the other; the model stays an identity."""
    names = ["x", *(f"h{i}" for i in range(len(operators) - 1)), "y"]
    nodes = (NodeView(op, (names[i],), (names[i + 1],)) for i, op in enumerate(operators))
    values = (ValueView(name, "float32", (4,)) for name in names)
    return replace(GRAPH, values=tuple(values), nodes=tuple(nodes))


def case(id_: TestId, doc: str) -> TestCase:
    """doc: "WHAT" or "WHAT:OP,OP", which sets the graph."""
    doc, _, operators = doc.partition(":")
    graph = chain(operators.split(",")) if operators else GRAPH

    x = np.full(4, -1 if id_.index is None else id_.index, np.float32)
    seconds = {"generate": 0.001, "export": 0.0005, "inputs": 0.0002}
    return TestCase(
        id_,
        graph,
        model(doc),
        {"x": x},
        {},
        {"y": x},
        "torchscript",
        20,
        seconds=seconds,
        generated_for=GENERATED_FOR,
    )


class Stub(Service):
    """`plan` is a list of doc_strings, repeated; "produce HOW" misbehaves in the producer.

    It may depend on the configuration.
    """

    def __init__(
        self,
        seed: int,
        plan: list[str] | Callable[[CaseConfig], list[str]],
        config: CaseConfig | None = None,
    ) -> None:
        self.seed = seed
        self.plan = plan
        self.config = config

    @does(ListVocabulary)
    def vocabulary(self, job, report):
        return Vocabulary({GENERATED_FOR: [KEY, *MORE]}, VARIABLES)

    @does(Configure)
    def configure(self, job, report):
        self.config = self.config and job.config

    @does(Judge)
    def judge(self, job, report):
        report("generate")
        return verdict(job)

    @does(Lower)
    def lower(self, job, report):
        return replace(case(job.case.id, "right"), exporter="direct")

    @does(Produce)
    def produce(self, job, report):
        report("generate")
        id_ = job.test
        if isinstance(id_, Probe):
            return case(id_, "nothing import none")
        plan = self.plan(self.config) if callable(self.plan) else self.plan
        doc = plan[id_.index % len(plan)]
        if self.avoids(id_.index, doc):
            doc = "right"
        how = doc.split()[1] if doc.startswith("produce ") else ""
        if how in ("export", "inputs", "fault"):
            return NotProduced(id_, how, f"no {how}", graph=GRAPH, generated_for=GENERATED_FOR)
        if how == "divide":
            report("inputs")
            os.kill(os.getpid(), signal.SIGFPE)
        fail(how)
        return case(id_, doc)

    def avoids(self, index: int, doc: str) -> bool:
        """Does as the real producer: nothing that is avoided, but for some indexes."""
        from nnfuzz.feedback.support import signature_keys
        from nnfuzz.ir.support_key import edge_keys

        if not self.config or not self.config.restrains(self.seed, index):
            return False
        graph = chain(doc.partition(":")[2].split(","))
        found = set(map(str, (*signature_keys(graph, VARIABLES), *edge_keys(graph))))
        return not found.isdisjoint(self.config.avoid)


def fail(how: str) -> None:
    if how == "raise":
        raise ValueError("a defect of the producer")
    if how == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hang":
        time.sleep(1000)


def verdict(job: Judge) -> Verdict:
    """Exact comparison with the expected outputs."""
    found = {PYTORCH: ()}
    for result in job.results:
        same = np.array_equal(result.outputs["y"], job.case.expected["y"])
        wrong = Mismatch("y", MismatchKind.VALUE, wrong=4, share=1.0)
        found[result.target] = () if same else (wrong,)
    return Verdict(found, {"y": 1.0})


def planned(*plan, stub=Stub):
    """A service that follows a plan whatever its configuration is."""
    return lambda seed, config, cache="": stub(seed, list(plan))


GOOD = "nothing import none"
quiet = planned(GOOD)


HOSTILE = (
    "segfault compile O0",
    "abort execute O2",
    "fpe execute O0",
    "hang compile O2",
    "allocate execute O0",
    "print_megabytes import O0",
    "raise import O0",
    "raise_unsupported compile O2",
    "os_exit execute O2",
    "sys_exit compile O0",
    "panic execute O0",
    "raise compile O2",
    "close_stdout execute O0",
    "daemon execute O0",
    "segfault import O0",
)


def hostile(seed, config, cache=""):
    """Thirty good tests, then one of each kind of trouble; of the producer's own as well."""
    own = ["produce raise", "produce segfault", "produce hang", "produce export", "produce inputs"]
    return Stub(seed, [GOOD] * 30 + [*HOSTILE, *own])


def failing(seed, config, cache=""):
    """A good test, and one of each kind of error that takes no time."""
    plan = [how for how in HOSTILE if how.split()[0] in ("segfault", "raise", "os_exit", "panic")]
    return Stub(seed, [GOOD, *plan, "raise execute O0", "produce export"])


dividing = planned(*[GOOD] * 9, "produce divide")
"""One test in ten whose inputs kill what computes the expected outputs."""
drowsy = planned(*[GOOD] * 19, "hang compile O0")
"""One model in twenty on which the compiler never returns."""
stuck = planned(GOOD, *["hang compile O0"] * 3)
"""Models of which most never come back."""
huge = planned(*[GOOD] * 9, "huge execute O0")
"""One model in ten of which a level returns 300 MB."""
sloppy = planned(*[GOOD] * 5, "slip execute O2")
"""Good tests, and one on which the adapter itself makes a mistake."""
hasty = planned("slip execute O0")
"""Tests on none of which the adapter does well: it makes a mistake in each."""
losing = planned(*[GOOD] * 11, "lose execute O2")
"""Good tests, and one whose output the compiler loses."""
hopeless = planned("produce raise")


class Misjudging(Stub):
    """The judge of one result stumbles."""

    @does(Judge)
    def judge(self, job, report):
        raise ZeroDivisionError("of ours")


misjudging = planned("right", "right", "wrong", "right", "right", stub=Misjudging)
lying = planned("right", "wrong", "flaky", "right", "unsupported", "wrong")
rare = planned(*["right"] * 30, "wrong", *["right"] * 8, "abort")
"""One wrong result and one crash among forty tests."""
giving = planned("right", "given away")
exporting = planned("right", "wrong everywhere")
"""Wrong at every level; but see "lower", which writes what is right."""
wrong_1101 = planned("sometimes wrong 1101")
wrong_1111 = planned("sometimes wrong 1111")
abort_1011 = planned("sometimes abort 1011")
abort_1111 = planned("sometimes abort 1111")
raise_10 = planned("sometimes raise 10")
raise_11 = planned("sometimes raise 11")


def fusing(seed, config, cache=""):
    """Relu in front of Conv is wrong, whatever else is there."""
    plan = ["wrong:Relu,Conv", "right", "wrong:Relu,Conv,Abs", "right:Abs,Conv", "right:Relu,Abs"]
    return Stub(seed, plan, CaseConfig.from_json(config))


def refused(seed, config, cache=""):
    """The same, with an operator that is refused."""
    made = fusing(seed, config)
    made.plan.append("unsupported:Exp")
    return made


def wrong_exp(seed, config, cache=""):
    return Stub(seed, ["wrong:Exp", "right:Abs"], CaseConfig.from_json(config))


@dataclass(frozen=True)
class Introduction:
    pid: int
    opset: int


@dataclass(frozen=True)
class Introduce(Job[Introduction]):
    """Asks a worker for its process id, and the opset that it was configured with."""

    die: bool = False


class Echo(Service):
    def __init__(self, config: CaseConfig) -> None:
        self.config = config

    @does(Configure)
    def configure(self, job, report):
        if job.config.exclude:
            raise ValueError("nothing is left")
        self.config = job.config

    @does(Introduce)
    def introduce(self, job, report):
        if job.die:
            os.kill(os.getpid(), signal.SIGKILL)
        return Introduction(os.getpid(), self.config.opset)


def echo(seed, config, cache=""):
    return Echo(CaseConfig.from_json(config))
