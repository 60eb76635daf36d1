"""Runs entries of scripts/recall/bugs on the compiler of the environment that runs this file.

The file imports neither nnfuzz nor anything beside the compiler, onnx and NumPy, so that it works
in the environment of any release. It prints one line of JSON for each entry: `outcome` is "ok",
"wrong", "error", "crash" or "hang", and `detail` says how the results differ or which error was
raised.

    ENVIRONMENT/bin/python scripts/recall/program.py scripts/recall/bugs/tvm/*.toml
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

RELATIVE, ABSOLUTE = 1e-3, 1e-5
"""Differences up to these are rounding, not a bug; an entry may have its own `tolerance`."""
SECONDS = 120
"""After so long, a compiler hangs."""
PRELOADED = {"iree": "iree.compiler"}
"""Modules that are imported before an entry is forked, where the system's name is none."""


def main(paths: list[Path]) -> None:
    """Prints a line of JSON for each entry, which runs in a child of this process."""
    for path in paths:
        entry = tomllib.loads(path.read_text())
        if "script" not in entry:
            importlib.import_module(PRELOADED.get(entry["system"], entry["system"]))
        read, write = os.pipe()
        if not (child := os.fork()):
            in_child(entry, write)
        os.close(write)
        status, data = wait(child, read)
        result = json.loads(data) if data else {"outcome": status, "detail": ""}
        print("\n" + json.dumps({"entry": f"{entry['system']}/{path.stem}", **result}), flush=True)


def in_child(entry: dict[str, Any], write: int) -> None:
    """Runs the entry, writes its outcome to a pipe and ends the process."""
    with contextlib.suppress(OSError):  # whatever the compiler prints is not ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        detail = script(entry) if "script" in entry else compare(entry)
        result = {"outcome": "wrong" if detail else "ok", "detail": detail}
    except BaseException as error:  # whatever a compiler raises is the outcome
        result = {"outcome": "error", "detail": f"{type(error).__name__}: {error}"}
    os.write(write, json.dumps({k: v[:2000] for k, v in result.items()}).encode())
    os._exit(0)


def wait(child: int, read: int) -> tuple[str, bytes]:
    """Waits for a child: "crash" if it wrote nothing, "hang" after SECONDS; and what it wrote."""
    ready, _, _ = select.select([read], [], [], SECONDS)
    data = os.read(read, 1 << 16) if ready else b""
    os.close(read)
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return ("crash" if ready else "hang"), data


def script(entry: dict[str, Any]) -> str:
    """Runs the entry's own program, whose function `check` returns what is wrong, or ""."""
    names: dict[str, Any] = {"__name__": "entry"}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "entry.py"  # torch.compile reads the source of functions
        source.write_text(entry["script"])
        exec(compile(entry["script"], str(source), "exec"), names)
        return str(names["check"]() or "")


def compare(entry: dict[str, Any]) -> str:
    """How the compiler's results differ from the expected ones; "" if they do not."""
    import onnx

    model = onnx.parser.parse_model(entry["model"])
    inputs = arrays(model.graph.input, entry.get("inputs", {}))
    found = SYSTEMS[entry["system"]](model, inputs, entry)
    expected = wanted(model, inputs, entry)
    rtol = entry.get("tolerance", RELATIVE)
    lines = [difference(name, found[name], expected[name], rtol) for name in expected]
    return "; ".join(filter(None, lines))


def arrays(values: Any, given: dict[str, Any]) -> dict[str, np.ndarray]:
    """The inputs by name: those of the entry, others drawn from a fixed seed."""
    from onnx.helper import tensor_dtype_to_np_dtype

    rng, found = np.random.default_rng(0), {}
    for value in values:
        kind = value.type.tensor_type
        dtype = tensor_dtype_to_np_dtype(kind.elem_type)
        shape = [d.dim_value if d.HasField("dim_value") else 2 for d in kind.shape.dim]
        if value.name in given:
            found[value.name] = np.array(given[value.name]).astype(dtype)
            if found[value.name].size == np.prod(shape):
                found[value.name] = found[value.name].reshape(shape)
        elif np.issubdtype(dtype, np.integer):
            found[value.name] = rng.integers(0, 5, shape).astype(dtype)
        elif dtype.kind == "b":
            found[value.name] = rng.integers(0, 2, shape).astype(bool)
        else:
            found[value.name] = rng.normal(size=shape).astype(dtype)
    return found


def wanted(model: Any, inputs: dict[str, np.ndarray], entry: dict[str, Any]) -> dict[str, Any]:
    """The right results: the entry's, those of a reference, or of the plainest way to run it."""
    from onnx.helper import tensor_dtype_to_np_dtype

    if "expected" in entry:
        kinds = {o.name: o.type.tensor_type for o in model.graph.output}
        return {
            name: np.array(value, tensor_dtype_to_np_dtype(kinds[name].elem_type)).reshape(
                [d.dim_value for d in kinds[name].shape.dim]
            )
            for name, value in entry["expected"].items()
        }
    if entry.get("reference") == "onnxruntime":
        return onnxruntime(model, inputs, {"level": "DISABLE_ALL"})
    from onnx.reference import ReferenceEvaluator

    names = [output.name for output in model.graph.output]
    return dict(zip(names, ReferenceEvaluator(model).run(None, inputs), strict=True))


def difference(name: str, found: Any, expected: Any, rtol: float) -> str:
    """How a result differs from the expected one in dtype, shape or values; "" if it does not."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.dtype != expected.dtype:
        return f"{name} is {found.dtype} and not {expected.dtype}"
    if found.shape != expected.shape:
        return f"{name} has shape {found.shape} and not {expected.shape}"
    left, right = (
        x.astype(np.float64 if x.dtype.kind not in "biu" else x.dtype) for x in (found, expected)
    )
    if left.dtype == bool or left.dtype.kind in "iu":
        same = left == right
    else:
        same = np.isclose(left, right, rtol=rtol, atol=ABSOLUTE, equal_nan=True)
    if same.all():
        return ""
    return f"{name}: {left[~same][:4].tolist()} and not {right[~same][:4].tolist()}"


def onnxruntime(model: Any, inputs: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """ONNX Runtime on the CPU; `level` is a name of GraphOptimizationLevel without ORT_."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    level = f"ORT_{entry.get('level', 'ENABLE_ALL')}"
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    data = model.SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    for _ in range(entry.get("runs", 1)):
        values = session.run(None, inputs)
    return dict(zip([o.name for o in model.graph.output], values, strict=True))


def openvino(model: Any, inputs: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """OpenVINO on the CPU, without the bfloat16 that it prefers on some machines."""
    import openvino

    core = openvino.Core()
    read = core.read_model(model=model.SerializeToString())
    compiled = core.compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    result = compiled.create_infer_request().infer([inputs[v.name] for v in model.graph.input])
    return {o.name: np.array(result[i]) for i, o in enumerate(model.graph.output)}


def tvm(model: Any, inputs: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """TVM (Relax) by LLVM, with the optimising pipeline unless `level` is "O0"."""
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    kept = entry.get("keep_params", False)
    module = from_onnx(model, keep_params_in_input=kept)
    parameters: list[Any] = []
    if kept:
        module, found = relax.frontend.detach_params(module)
        parameters = list(found.get("main", []))
    target = tvm.target.Target({"kind": "llvm"})
    pipeline: Any = "default"
    if entry.get("level") != "O0":
        pipeline = relax.backend.cpu_generic.get_default_pipeline(target)
    with target, tvm.transform.PassContext(opt_level=0 if entry.get("level") == "O0" else 3):
        program = relax.build(module, target, relax_pipeline=pipeline)
    weights = {t.name for t in model.graph.initializer}
    given = [inputs[v.name] for v in model.graph.input if v.name not in weights]
    machine = relax.VirtualMachine(program, tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(a) for a in given), *parameters)
    results = [result] if len(model.graph.output) == 1 else result
    return {o.name: r.numpy() for o, r in zip(model.graph.output, results, strict=True)}


def iree(model: Any, inputs: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """IREE for the CPU by its ONNX importer."""
    import iree.compiler as compiler
    import iree.runtime as runtime
    import onnx
    from iree.compiler.extras import onnx_importer
    from iree.compiler.ir import Context

    proto = onnx.shape_inference.infer_shapes(model, data_prop=True)
    proto.graph.name = "main"
    info = onnx_importer.ModelInfo(proto)
    module = info.create_module(context=Context())
    importer = onnx_importer.NodeImporter.define_function(info.main_graph, module.operation)
    importer.import_all()
    flags = ["--iree-input-demote-f64-to-f32=false", "--iree-llvmcpu-target-cpu=host"]
    kind = "onnx" if hasattr(compiler.InputType, "ONNX") else "auto"  # before 2025
    program = compiler.compile_str(
        str(module), input_type=kind, target_backends=["llvm-cpu"], extra_args=flags
    )
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    loaded = runtime.VmModule.copy_buffer(context.instance, program)
    context.add_vm_module(loaded)
    weights = {t.name for t in proto.graph.initializer}
    given = [inputs[v.name] for v in proto.graph.input if v.name not in weights]
    result = context.modules[loaded.name]["main"](*given)
    results = [result] if len(proto.graph.output) == 1 else result
    return {o.name: np.asarray(r) for o, r in zip(proto.graph.output, results, strict=True)}


def optimised(model: Any, inputs: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """The model as an optimiser rewrites it, run by ONNX Runtime without optimisation."""
    return onnxruntime(rewritten(model, entry["system"]), inputs, {"level": "DISABLE_ALL"})


def rewritten(model: Any, system: str) -> Any:
    """The model after onnxslim, onnxsim or all passes of onnxoptimizer that fuse or eliminate."""
    if system == "onnxslim":
        import onnxslim

        return onnxslim.slim(model)
    if system == "onnxsim":
        import onnxsim

        return onnxsim.simplify(model)[0]
    import onnxoptimizer

    return onnxoptimizer.optimize(model, onnxoptimizer.get_fuse_and_elimination_passes())


SYSTEMS = {
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "tvm": tvm,
    "iree": iree,
    "onnxslim": optimised,
    "onnxsim": optimised,
    "onnxoptimizer": optimised,
}

if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
