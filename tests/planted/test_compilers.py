"""The planted compilers: right but for their faults, and they know which of them a model meets."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnfuzz.backend.complaint import ComplaintKind, described
from nnfuzz.backend.conformance import check_backend, standard_probes
from nnfuzz.backend.outcome import Stage
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from tests.planted import blamed, immature, shared, speaking
from tests.planted.faults import Death, FaultyCompiler, sites
from tests.planted.nodewise import Interpreter

ROWS = np.array([[1.0, -2.0, 3.0], [0.5, 2.5, -1.0]], np.float32)
ONE = {"x": ROWS}


def model(*nodes, outputs=("y",), dtype=TensorProto.FLOAT, shape=(2, 3)):
    """(operator, inputs, output, attributes) from x of a dtype to outputs of the same."""
    made = [helper.make_node(op, list(ins), [out], **attrs) for op, ins, out, attrs in nodes]
    ins = [helper.make_tensor_value_info("x", dtype, shape)]
    outs = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(made, "g", ins, outs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def causes(*nodes, inputs=ONE, **rest):
    return immature.causes_of(model(*nodes, **rest).SerializeToString(), inputs)


@pytest.mark.parametrize("exporter", ["direct", "torchscript"])
def test_without_faults_the_interpreter_is_right(exporter):
    producer = Producer(6, CaseConfig(exporter=exporter))
    cases = [c for c in map(producer.produce, range(12)) if isinstance(c, TestCase)]
    agreed = 0
    for case in cases:
        try:
            outputs = Interpreter(onnx.load_model_from_string(case.model))(case.inputs)
        except NotImplementedError:  # by ONNX Runtime and the reference implementation, too
            continue
        assert outputs.keys() == case.expected.keys()
        agreed += all(
            np.allclose(outputs[n].astype(float), x.astype(float), 1e-2, 1e-3, equal_nan=True)
            for n, x in case.expected.items()
        )
    assert agreed > len(cases) * 0.7  # roughly: judging is the envelope's business


def test_bodies_are_walked():
    body = helper.make_graph(
        [
            helper.make_node("Add", ["c", "x"], ["d"]),
            helper.make_node("Identity", ["g"], ["h"]),
            helper.make_node("Sin", ["d"], ["s"]),
        ],
        "body",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in
         (("i", TensorProto.INT64, []), ("g", TensorProto.BOOL, []),
          ("c", TensorProto.FLOAT, [2, 3]))],
        [helper.make_tensor_value_info(n, t, s) for n, t, s in
         (("h", TensorProto.BOOL, []), ("d", TensorProto.FLOAT, [2, 3]),
          ("s", TensorProto.FLOAT, [2, 3]))],
    )  # fmt: skip
    loop = helper.make_node("Loop", ["n", "", "x"], ["y", "z"], body=body)
    graph = helper.make_graph(
        [loop],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_empty_tensor_value_info(n) for n in "yz"],
        [helper.make_tensor("n", TensorProto.INT64, [], [2])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    found = Interpreter(proto)(ONE)
    np.testing.assert_array_equal(found["y"], ROWS * 3)
    np.testing.assert_allclose(found["z"], np.sin([ROWS * 2, ROWS * 3]), rtol=1e-6)
    assert [site.op for site in sites(proto)] == ["Loop", "Add", "Identity", "Sin"]
    assert immature.causes_of(proto.SerializeToString(), ONE) == {"capture_lost"}


def test_sixty_operators_and_forty_causes():
    assert len(immature.FAULTS) == 40
    assert len(immature.FAULTS.operators()) == 60
    assert all(fault.text for fault in immature.FAULTS)


def test_the_cause_of_a_failure_is_known():
    sin, relu = ("Sin", "x", "y", {}), ("Relu", "x", "y", {})
    assert causes(relu) == set()
    assert causes(sin) == {"sine_negated"}
    assert causes(("Celu", "x", "y", {})) == {"activation_missing"}
    # What does not reach an output is no cause, and what comes first hides the rest.
    assert causes(relu, ("Sin", "x", "s", {})) == set()
    assert causes(("Sin", "x", "s", {}), ("Hardmax", "s", "y", {})) == {"hardmax_hangs"}
    both = causes(("Sin", "x", "s", {}), ("Round", "x", "y", {}), outputs=("s", "y"))
    assert both == {"sine_negated", "half_rounded_up"}
    wide = {"x": ROWS.astype(np.float64) / 3}
    exp = ("Exp", "x", "y", {})
    assert causes(exp, inputs=wide, dtype=TensorProto.DOUBLE) == {"double_in_float"}


def test_deaths_are_told_and_do_not_happen():
    proto = model(("Hardmax", "x", "y", {}))
    with pytest.raises(Death, match="hang"):
        FaultyCompiler(immature.FAULTS).check(proto, Stage.COMPILE)


def test_the_blamed_compiler_has_ten_faults_of_each_kind():
    sizes = {where: 0 for _, where in blamed.COORDINATES}
    for faults, where in blamed.COORDINATES:
        sizes[where] += len(faults)
    kernels = len(blamed.GPU) + len(blamed.NEWER) + len(blamed.KERNEL)
    assert len(blamed.OPTIMISER) == kernels == len(blamed.IMPORTER) == len(blamed.EXPORTER) == 10
    assert sizes == {"pipeline": 10, "device": 4, "release": 3, "compiler": 13}


def test_a_fault_is_met_at_its_targets_only():
    after = model(("Sub", "xx", "s", {}), ("Relu", "s", "y", {})).SerializeToString()
    alone = model(("Relu", "x", "y", {})).SerializeToString()
    inputs = {"x": ROWS}
    sigmoid = model(("Sigmoid", "x", "y", {})).SerializeToString()
    assert blamed.causes_at(alone, inputs, "cpu", "1.0", "O3") == set()
    assert blamed.causes_at(after, inputs, "cpu", "1.0", "O0") == set()
    assert blamed.causes_at(after, inputs, "cpu", "1.0", "O3") == {"fuses_sub_relu"}
    assert blamed.causes_at(sigmoid, inputs, "gpu", "1.0", "O3") == set()
    assert blamed.causes_at(sigmoid, inputs, "gpu", "1.1", "O0") == {"sigmoid_since_1_1"}
    assert blamed.coordinate_of("sigmoid_since_1_1") == "release"


def test_an_exporter_is_corrupted():
    proto = model(("ArgMax", "x", "a", {"keepdims": 0}), ("Neg", "x", "y", {}))
    data = proto.SerializeToString()
    assert blamed.badly_exported(data, "export_swaps_sub") is None
    changed = onnx.load_model_from_string(blamed.badly_exported(data, "export_loses_keepdims"))
    assert [list(node.attribute) for node in changed.graph.node] == [[], []]


def test_the_blamed_compiler_conforms(request):
    plugin = blamed.__file__
    probes = [p for p in standard_probes() if p.name != "matmul with a weight"]
    fates = check_backend("blamed", [plugin], probes)
    assert fates["add"] == "ok"


POLITE = ("Selu", "x", "y", {}), ComplaintKind.UNSUPPORTED, "no converter registered"
BROKEN = ("Mish", "x", "y", {}), ComplaintKind.ERROR, "the gate table is empty at entry"
FRIEND = ("Pow", "xx", "y", {}), ComplaintKind.ERROR, "attempt to multiply with overflow"


@pytest.mark.parametrize(("node", "kind", "words"), [POLITE, BROKEN, FRIEND])
@pytest.mark.parametrize("adapter", [speaking.Panicking, speaking.Rambling])
def test_what_is_said_in_any_manner_is_read(adapter, node, kind, words):
    made, spoken = model(node).SerializeToString(), adapter()
    with pytest.raises(RuntimeError) as raised:
        spoken.build(spoken.load(made), "O0")
    told = spoken.complaint(described(raised.value, Stage.COMPILE))
    assert told.kind is kind and words in told.subject and "libc" not in told.subject
    assert bool(speaking.causes_of(made, ONE)) is (kind is ComplaintKind.ERROR)


def test_what_is_printed_is_what_is_wrong(capfd):
    with pytest.raises(RuntimeError, match="exit code 1"):
        speaking.Muttering().build(model(BROKEN[0]), "O0")
    told = speaking.Muttering.console("".join(capfd.readouterr()))
    assert told.startswith(BROKEN[2]) and "not supported" not in told


@pytest.mark.parametrize(
    ("node", "cause"),
    [
        (("Sub", ["x", "w"], "y", {}), {"constant_loses_sign"}),
        (("Sub", ["x", "x"], "y", {}), set()),
        (("Min", ["x", "x", "v"], "y", {}), {"third_operand_lost"}),
        (("ReduceMax", ["x"], "y", {"noop_with_empty_axes": 1}), {"noop_ignored"}),
        (("ArgMax", ["v"], "y", {"select_last_index": 1}), {"last_index_ignored"}),
    ],
)
def test_shared_causes_show_at_many_operators(node, cause):
    """x and v are inputs, w is a constant."""
    given = {"x": ROWS, "v": np.full_like(ROWS, -9)}
    proto = model(node)
    proto.graph.input.append(helper.make_tensor_value_info("v", TensorProto.FLOAT, (2, 3)))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(-ROWS, "w"))
    assert shared.causes_of(proto.SerializeToString(), given) == cause
