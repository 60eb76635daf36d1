"""Passes and options of Apache TVM beyond its pipelines. Drawn pipelines consist of them.

A drawn pass runs on the imported module before the level's own pipeline. Passes over Relax
operators come first; after LegalizeOps come passes over calls of TIR functions, and over TIR.
docs/PIPELINES.md lists the passes that are left out, and the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from textwrap import indent
from typing import Any

from nnfuzz.backend.target import Pipeline

_HIGH = (
    *("AdjustMatmulOrder", "CombineParallelMatmul", "ConvertLayout", "DecomposeOpsForInference"),
    *("FoldBatchnormToConv2D", "FuseTransposeMatmul", "MergeCompositeFunctions"),
    *("OptimizeLayoutTransform", "RemoveRedundantReshape", "ReorderPermuteDimsAfterConcat"),
    "ReorderTakeAfterMatmul",
)
"""Passes that rewrite Relax operators, and therefore run before LegalizeOps replaces these."""
_ANYWHERE = (
    *("CanonicalizeBindings", "ConvertToDataflow", "DataflowUseInplaceCalls"),
    *("DeadCodeElimination", "EliminateCommonSubexpr", "ExpandTupleArguments", "FoldConstant"),
    *("InlinePrivateFunctions", "LambdaLift", "LiftTransformParams", "Normalize"),
    *("NormalizeGlobalVar", "RemoveUnusedOutputs", "RemoveUnusedParameters", "TopologicalSort"),
)
_LEGALIZE = "LegalizeOps"
_LOW = (
    *("AnnotateTIROpPattern", "FuseOps", "RewriteDataflowReshape"),
    *("tirx.StmtSimplify", "tirx.ConvertSSA", "tirx.RemoveNoOp", "tirx.UnrollLoop"),
    *("tirx.RemoveAssume", "tirx.VectorizeLoop", "s_tir.CanonicalizeLoop"),
    *("s_tir.HoistIfThenElse", "s_tir.LoopPartition", "s_tir.RenormalizeSplitPattern"),
    *("s_tir.RewriteUnsafeSelect", "s_tir.UseAssumeToReduceBranches", "s_tir.RemoveStoreUndef"),
    *("s_tir.AnnotateIrregularLoop", "s_tir.LowerInitBlock", "s_tir.LowerMatchBuffer"),
    "dlight.GEMV",
)
_AFTER = {"FuseOps": ("AnnotateTIROpPattern",)}
"""Pass -> passes that must run before it for it to have an effect; they are drawn with it."""
_OPTIONS = {
    "exec_mode": ("compiled",),
    "mcpu": ("generic", "nehalem", "haswell"),
    "opt-level": ("1", "3"),
    "relax.FuseOps.max_depth": ("2",),
    "tirx.disable_assert": ("1",),
    "tirx.disable_cse_tir": ("1",),
    "tirx.disable_storage_rewrite": ("1",),
    "tirx.disable_vectorize": ("1",),
    "tirx.debug_keep_trivial_loop": ("1",),
    "tirx.enable_buffer_level_predication": ("1",),
    "tirx.StmtSimplify": ("1",),
    "tirx.UnrollLoop": ("1",),
    "s_tir.HoistIfThenElse": ("1",),
    "s_tir.LoopPartition": ("1",),
}
_DETAILS: Mapping[str, Mapping[str, Any]] = {
    "tirx.StmtSimplify": {
        "transitively_prove_inequalities": True,
        "convert_boolean_to_and_of_ors": True,
        "apply_constraints_to_boolean_branches": True,
    },
    "tirx.UnrollLoop": {"auto_max_step": 16, "auto_max_depth": 8, "explicit_unroll": True},
    "s_tir.HoistIfThenElse": {"support_block_scope_hoisting": True},
    "s_tir.LoopPartition": {"partition_const_loop": True},
}
"""The fields of each option whose value is a record."""
_OF_TARGET = ("exec_mode", "mcpu", "opt-level")
STEPS = (
    *(*_HIGH, *_ANYWHERE, _LEGALIZE, *_LOW),
    *(f"{name}={value}" for name, values in _OPTIONS.items() for value in values),
)
COLLECTIONS: Mapping[str, tuple[str, ...]] = {
    "ConvertLayout": (),
    "LegalizeOps": (),
    **{f"{name}={value}": () for name in _OF_TARGET for value in _OPTIONS[name]},
}
LIFT, LIFTED = "LiftTransformParams", "main_transform_params"
"""The pass that divides a model, and the function for the part that depends only on weights."""
_WRITTEN = {
    "ConvertLayout": 'relax.transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})',
    # A pass between these two could fold constants in a form that FuseTIR does not accept.
    "FuseOps": """tvm.transform.Sequential([
    relax.transform.FuseOps(fuse_opt_level=4),
    relax.transform.FuseTIR(),
])""",
    "MergeCompositeFunctions": """tvm.transform.Sequential([
    relax.transform.FuseOpsByPattern([
        (f"any.{name}", relax.dpl.is_op(f"relax.{name}")(*[relax.dpl.wildcard()] * count))
        for name, count in [("add", 2), ("multiply", 2), ("nn.relu", 1)]
    ], bind_constants=False),
    relax.transform.MergeCompositeFunctions(),
    relax.transform.LambdaLift(),
])""",
    "dlight.GEMV": "tvm.s_tir.dlight.ApplyDefaultSchedule(tvm.s_tir.dlight.cpu.GEMV())",
}
"""Python expressions for passes that need arguments."""
_MOST_PASSES, _MOST_OPTIONS = 3, 2
"""Most passes or options of a kind: enough for pairs, and few enough to tell which one matters."""


def draw(rng: Random) -> Pipeline:
    """Draws a level, some passes in a random order that respects _AFTER, and some options."""
    front = rng.sample((*_HIGH, *_ANYWHERE), rng.randint(0, _MOST_PASSES))
    back = rng.sample((*_ANYWHERE, *_LOW), rng.randint(0, _MOST_PASSES))
    ordered: list[str] = [_LEGALIZE] if back else []
    for name in back:
        ordered += [other for other in (*_AFTER.get(name, ()), name) if other not in ordered]
    names = rng.sample(list(_OPTIONS), rng.randint(0 if front or back else 1, _MOST_OPTIONS))
    options = [f"{name}={rng.choice(_OPTIONS[name])}" for name in names]
    return Pipeline(rng.choice(("O0", "O1", "O3")), (*front, *ordered, *options))


def chosen(steps: Iterable[str]) -> dict[str, str]:
    """The options among the steps that do not belong to a PassContext, by name."""
    settings = dict(step.split("=", 1) for step in steps if "=" in step)
    return {name: value for name, value in settings.items() if name in _OF_TARGET}


def config(steps: Iterable[str]) -> dict[str, Any]:
    """The configuration of a PassContext, from the options among the steps."""
    settings = dict(step.split("=", 1) for step in steps if "=" in step)
    return {k: _DETAILS.get(k, int(v)) for k, v in settings.items() if k not in _OF_TARGET}


def written(step: str) -> str:
    """A pass as a Python expression over tvm and relax."""
    room = f"tvm.{step.rpartition('.')[0]}" if "." in step else "relax"
    return _WRITTEN.get(step, f"{room}.transform.{step.rpartition('.')[2]}()")


def applied(tvm: Any, module: Any, steps: Sequence[str]) -> Any:
    """The module after the passes among the steps. tvm: the package."""
    if LIFT in steps:
        module = half_weights(tvm, module)
    for step in steps:
        if "=" not in step:
            # Only text of this file is evaluated: Backend.check_level admits known steps only.
            module = eval(written(step), {"tvm": tvm, "relax": tvm.relax})(module)
    return module


def half_weights(tvm: Any, module: Any) -> Any:
    """A copy of a module in which the second half of the inputs counts as weights."""
    main = module["main"]
    copy = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    copy["main"] = main.with_attr("num_input", (len(main.params) + 1) // 2)
    return copy


def source_of(pipelines: Iterable[Pipeline]) -> str:
    """Source of DRAWN in a repro script: pipeline -> (passes, PassContext options, other
    options)."""
    lines = ["DRAWN = {"]
    for pipeline in pipelines:
        lines += [f"    {str(pipeline)!r}: (", "        ["]
        passes = (written(step) for step in pipeline.steps if "=" not in step)
        lines += [indent(f"lambda tvm, relax: {text},", " " * 12) for text in passes]
        options = {k: int(v) if v.isdigit() else v for k, v in chosen(pipeline.steps).items()}
        lines += ["        ],", f"        {config(pipeline.steps)!r},", f"        {options!r},"]
        lines.append("    ),")
    return "\n".join([*lines, "}\n"])
