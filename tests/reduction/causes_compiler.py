"""The faults of the backend in causes.py: a compiler is no part of its adapter."""

import os
import signal

TABLE: dict[str, str] = {}


def rewritten(module):
    import onnx
    from onnx import helper, numpy_helper

    result = onnx.ModelProto()
    result.CopyFrom(module)
    del result.graph.node[:]
    constants = {tensor.name: tensor for tensor in result.graph.initializer}
    for node in module.graph.node:
        if node.op_type in ("HardSwish", "Mish"):
            os.kill(os.getpid(), signal.SIGSEGV)
        if node.op_type in ("Elu", "Selu"):
            raise RuntimeError(f"no activation {node.op_type} in a table of {len(TABLE)}")
        kept = result.graph.node.add()
        kept.CopyFrom(node)
        if node.op_type in ("Softmax", "LogSoftmax"):
            del kept.attribute[:]
        rest = [a for a in kept.attribute if a.name != "noop_with_empty_axes"]
        del kept.attribute[:]
        kept.attribute.extend(rest)
        if node.op_type in ("Max", "Min", "Mean"):
            del kept.input[2:]
        for tensor in map(constants.get, node.input if node.op_type in ("Sub", "Div") else ()):
            if tensor is not None:
                unsigned = abs(numpy_helper.to_array(tensor))
                tensor.CopyFrom(numpy_helper.from_array(unsigned, tensor.name))
        if node.op_type == "MatMul":
            name = node.output[0]
            kept.output[0] = f"{name}_product"
            turned = helper.make_node("Transpose", [f"{name}_product"], [name])
            result.graph.node.append(turned)
    return result
