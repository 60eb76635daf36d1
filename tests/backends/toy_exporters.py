"""Exporters with planted faults, one of each kind: they write an Add, whatever the module is."""

from nnfuzz.backends.exporters import Exporter


def add(declared=1, kind="Add", second="x0"):
    from onnx import helper

    ends = [helper.make_tensor_value_info("x0", 1, [3, 4])]
    ends += [helper.make_tensor_value_info("y", declared, [3, 4])]
    nodes = [helper.make_node(kind, ["x0", second], ["y" if declared == 1 else "z"])]
    nodes += [] if declared == 1 else [helper.make_node("Cast", ["z"], ["y"], to=declared)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


class Wrong(Exporter):
    name = "wrong"

    @staticmethod
    def export(module, arguments, level, opset):
        import io

        import onnx
        import torch

        buffer = io.BytesIO()
        torch.onnx.export(module, tuple(arguments), buffer, input_names=["x0"], dynamo=False)
        model = onnx.load_model_from_string(buffer.getvalue())
        for node in model.graph.node:
            node.op_type = {"Add": "Sub"}.get(node.op_type, node.op_type)
        return model.SerializeToString()


class Raises(Exporter):
    name = "raises"

    @staticmethod
    def export(module, arguments, level, opset):
        raise RuntimeError("cannot translate aten.add")


class Refuses(Exporter):
    name = "refuses"

    @staticmethod
    def export(module, arguments, level, opset):
        raise RuntimeError("Exporting the operator 'aten::add' is not supported")


class Declares(Exporter):
    name = "declares"

    @staticmethod
    def export(module, arguments, level, opset):
        return add(declared=7)


class Invalid(Exporter):
    name = "invalid"

    @staticmethod
    def export(module, arguments, level, opset):
        return add(kind="Adx")
