"""Operators of the domain com.microsoft, which several compilers take beside those of ONNX."""

import json
from pathlib import Path

from onnx import defs, helper

from nnfuzz.operators.operator import S, operator

DOMAIN = "com.microsoft"


def _schema(name, inputs, outputs, types, attributes):
    """The arguments are the parts of a schema of ONNX Runtime 1.32.0, as schemas.json has them."""
    made, option, kind = defs.OpSchema, defs.OpSchema.FormalParameterOption, defs.OpSchema.AttrType
    read, given = (
        [made.FormalParameter(n, t, "", param_option=getattr(option, o)) for n, o, t in own]
        for own in (inputs, outputs)
    )
    declared = [
        made.Attribute(n, getattr(kind, k), "", required=needed)
        if value is None
        else made.Attribute(n, helper.make_attribute(n, value), "")
        for n, (k, needed, value) in attributes.items()
    ]
    limits = [(variable, dtypes, "") for variable, dtypes in types.items()]
    ends = {"inputs": read, "outputs": given}
    return made(name, DOMAIN, 1, "", **ends, type_constraints=limits, attributes=declared)


with Path(__file__).with_name("schemas.json").open(encoding="utf-8") as file:
    SCHEMAS = {f"{DOMAIN}.{name}": _schema(name, **own) for name, own in json.load(file).items()}
"""By operator; a spec whose name begins with that of an operator is a mode of it."""


def microsoft(cls: type[S]) -> type[S]:
    """Marks a class as a complete spec of the operator of com.microsoft that has its name."""
    spec = operator(cls, DOMAIN)
    spec.schema = SCHEMAS[max((n for n in SCHEMAS if spec.name.startswith(n)), key=len)]
    return spec
