"""The adapter of IREE; one model through all of it, since each takes seconds."""

import numpy as np
import pytest
from nnfuzz.backends.iree import Iree

from nnfuzz.backend.complaint import CompilerError, ComplaintKind, Stage
from nnfuzz.backend.conformance import standard_probes

installed = pytest.mark.skipif(bool(Iree.missing()), reason=str(Iree.missing()))


@installed
def test_a_model_with_two_outputs_and_its_script():
    (probe,) = (p for p in standard_probes() if p.name == "two outputs, one used inside")
    adapter, space = Iree(), {}
    found = adapter.build(adapter.load(probe.model), "O0")(probe.inputs)
    exec("import numpy as np\n" + adapter.repro(), space)
    alone = space["run"](probe.model, probe.inputs, "O0")
    for name, array in probe.expected.items():
        np.testing.assert_array_equal(found[name], array)
        np.testing.assert_array_equal(alone[name], array)


@installed
def test_unsigned_integers_keep_their_type():
    (probe,) = (p for p in standard_probes() if p.name == "uint8")
    adapter = Iree()
    found = adapter.build(adapter.load(probe.model), "O0")(probe.inputs)
    assert found["y"].dtype == np.uint8
    np.testing.assert_array_equal(found["y"], probe.expected["y"])


@installed
def test_what_its_runtime_has_no_arrays_for_is_unsupported():
    (probe,) = (p for p in standard_probes() if p.name == "bfloat16")
    with pytest.raises(NotImplementedError, match="bfloat16"):
        Iree().load(probe.model)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("failed to legalize operation 'torch.operator': \"onnx.Foo\"", ComplaintKind.UNSUPPORTED),
        ("'linalg.generic' op inferred shape differs in \"onnx.Foo\"", ComplaintKind.ERROR),
    ],
)
def test_the_first_diagnostic_is_the_complaint(said, kind):
    message = f"Error invoking IREE compiler tool\nDiagnostics:\n<stdin>:4:10: error: {said}\nnote:"
    found = Iree.complaint(CompilerError(Stage.COMPILE, "CompilerToolError", message))
    assert (found.kind, found.operators, found.subject) == (kind, ("Foo",), said)


def test_a_fatal_error_of_llvm_is_the_complaint():
    message = "Error code: -6\nDiagnostics:\nLLVM ERROR: Unhandled type: ui64\nStack dump:\n0. x"
    error = CompilerError(Stage.COMPILE, "iree.compiler.CompilerToolError", message)
    assert Iree.complaint(error).subject == "Unhandled type: ui64"
