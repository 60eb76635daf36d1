"""Model optimisers with planted faults, one of each kind."""

from nnfuzz.backends.transform import Transform


class Toy(Transform):
    """Its passes: "add" makes a Sub of every Add, "neg" drops one of two Neg in a row."""

    name = "toy"

    @staticmethod
    def transform(model, without):
        for node in model.graph.node:
            if node.op_type == "Add" and "add" not in without:
                node.op_type = "Sub"
        return model

    @classmethod
    def passes(cls):
        return ["neg", "add"]


class Raises(Transform):
    name = "raises"

    @staticmethod
    def transform(model, without):
        raise RuntimeError("cannot fuse Add")


class Refuses(Transform):
    name = "refuses"

    @staticmethod
    def transform(model, without):
        raise NotImplementedError("Add is beyond me")


class Renames(Transform):
    name = "renames"

    @staticmethod
    def transform(model, without):
        for values in (model.graph.node[-1].output, [model.graph.output[0]]):
            if isinstance(values[0], str):
                values[0] = "other"
            else:
                values[0].name = "other"
        return model


class Reshapes(Transform):
    name = "reshapes"

    @staticmethod
    def transform(model, without):
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 1
        return model


class Retypes(Transform):
    name = "retypes"

    @staticmethod
    def transform(model, without):
        model.graph.node.pop()
        return model


class Dies(Transform):
    name = "dies"

    @staticmethod
    def transform(model, without):
        import os

        os.abort()
