"""The standard on a finding: clauses to look up, and the value that onnx.reference computes."""

from __future__ import annotations

import numpy as np

from nnfuzz.base.packed_values import evaluated
from nnfuzz.records.finding import Finding
from nnfuzz.report.numbers import MOST_ELEMENTS
from nnfuzz.triage.mismatch import WrongOutput
from nnfuzz.triage.title import attributes_that_matter

MOST_CLAUSES = 4
"""Operators up to which a report says where the standard describes each."""


def clauses(finding: Finding) -> list[str]:
    """Where the standard describes the operators of a model: "ONNX Resize-19, attributes mode".

    The version is that of the schema in force at the model's opset. Empty for a model of more than
    MOST_CLAUSES operators, or one that must be refused.
    """
    import onnx
    from onnx import defs

    if finding.case.fault or not finding.case.model:
        return []
    model = onnx.load_model_from_string(finding.case.model)
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    references = []
    for node in nodes if len(nodes) <= MOST_CLAUSES else ():
        opset = opsets.get(node.domain, 1)
        try:
            schema = defs.get_schema(node.op_type, opset, node.domain)
        except defs.SchemaError:
            continue
        names = [text.partition("=")[0] for text in attributes_that_matter(node, opset)]
        attributes = f", attribute{'s' * (len(names) > 1)} {', '.join(names)}" if names else ""
        references.append(f"ONNX {node.op_type}-{schema.since_version}{attributes}")
    return list(dict.fromkeys(references))


def reference_value(finding: Finding, wrong: WrongOutput) -> str:
    """The value of onnx.reference for the worst element of a small model, as text; "" if it cannot
    run the model, returns another shape, or the model is large.
    """
    case = finding.case
    arrays = [*case.inputs.values(), *case.weights.values(), *case.expected.values()]
    if not wrong.worst or sum(a.size for a in arrays) > MOST_ELEMENTS:
        return ""
    try:
        with np.errstate(all="ignore"):
            output = evaluated(case.model, case.inputs)[wrong.output]
            return str(np.asarray(output)[tuple(wrong.worst.index)])
    except Exception:  # it is Python written operator by operator, and may raise anything
        return ""
