"""Producer services without PyTorch: identity models whose doc_string says what shall happen."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

KEY = "Identity(float32)->float32"
GRAPH = {
    "schema": 1,
    "values": [["x", "float32", [4]], ["y", "float32", [4]]],
    "nodes": [{"op": "Identity", "attributes": {}, "inputs": ["x"], "outputs": ["y"]}],
    "inputs": ["x"],
    "weights": [],
    "outputs": ["y"],
}


def model(doc: str) -> bytes:
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    opsets = [helper.make_opsetid("", 20)]
    made = helper.make_model(graph, doc_string=doc, opset_imports=opsets, ir_version=9)
    return made.SerializeToString()


def frame(seed: int, index: int, doc: str) -> tuple[dict, dict]:
    from nnfuzz.testcase.case import TestCase

    x = np.full(4, index, np.float32)
    seconds = {"generate": 0.001, "export": 0.0005, "inputs": 0.0002}
    case = TestCase(
        seed, index, GRAPH, model(doc), {"x": x}, {}, {"y": x}, "torchscript", 20, seconds=seconds
    )
    header, blobs = case.to_frame()
    return {"case": header}, blobs


class Stub:
    """`plan` is a list of doc_strings, repeated; "produce HOW" misbehaves in the producer."""

    def __init__(self, seed: int, plan: list[str]) -> None:
        self.seed = seed
        self.plan = plan

    def handle(self, header, blobs, report):
        report("generate")
        do = header["do"]
        if do == "signatures":
            return {"signatures": [KEY], "variables": {"Identity": [0]}}, {}
        if do == "judge":
            return {"verdict": verdict(header, blobs)}, {}
        if do == "lower":
            return {}, {"model": model("right")}
        if do == "probe":
            return frame(self.seed, -1, "nothing import none")
        doc = self.plan[header["index"] % len(self.plan)]
        how = doc.split()[1] if doc.startswith("produce ") else ""
        if how in ("export", "inputs", "fault"):
            failed = {
                "index": header["index"],
                "stage": how,
                "message": f"no {how}",
                "graph": GRAPH,
            }
            return {"failed": failed}, {}
        fail(how)
        return frame(self.seed, header["index"], doc)


def fail(how: str) -> None:
    if how == "raise":
        raise ValueError("a defect of the producer")
    if how == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hang":
        time.sleep(1000)


def verdict(header, blobs) -> dict:
    """Exact comparison with the expected outputs, in the form of Verdict.to_json()."""
    found = {"pytorch": []}
    for number, party in enumerate(header["parties"]):
        same = np.array_equal(blobs[f"party/{number}/y"], blobs["expected/y"])
        wrong = {"output": "y", "kind": "value", "wrong": 4, "share": 1.0}
        found["/".join(party)] = [] if same else [wrong]
    agreed = any("@direct/" in party and not wrong for party, wrong in found.items())
    party = {"party": "exporter" if agreed else "importer or kernel"}
    return {
        "mismatches": found,
        "comparable": {"y": 1.0},
        "suspect_reference": False,
        "attribution": {"liar": party},
    }


def quiet(seed, config):
    return Stub(seed, ["nothing import none"])


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
    "garbage execute O2",
    "close_stdout execute O0",
    "daemon execute O0",
    "segfault import O0",
)


def hostile(seed, config):
    """Thirty good tests, then one of each kind of trouble; of the producer's own as well."""
    own = ["produce raise", "produce segfault", "produce hang", "produce export", "produce inputs"]
    return Stub(seed, ["nothing import none"] * 30 + [*HOSTILE, *own])


def hopeless(seed, config):
    return Stub(seed, ["produce raise"])


def lying(seed, config):
    return Stub(seed, ["right", "wrong", "flaky", "right", "unsupported", "wrong"])


def sometimes(how, plan):
    return lambda seed, config: Stub(seed, [f"sometimes {how} {plan}"])


wrong_1101 = sometimes("wrong", "1101")
wrong_1111 = sometimes("wrong", "1111")
abort_1011 = sometimes("abort", "1011")
abort_1111 = sometimes("abort", "1111")
raise_10 = sometimes("raise", "10")
raise_11 = sometimes("raise", "11")
