"""Ensembles of decision trees.

A tree is a leaf or a decision. A leaf has one or more pairs (target, weight); a decision is (mode,
feature, split, the tree if it holds, the tree if not), with a mode of `MODES`.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import In, OpSpec
from nnfuzz.operators.waiver import Waiver, reference

from . import ml
from .features import as_floats, integers
from .linear import (
    CLASSES,
    LABELS,
    NOT_APPLIED,
    TRANSFORMS,
    Affine,
    Classifying,
    Label,
    Scored,
    transformed,
)

Tree = tuple[Any, ...]
MODES: Mapping[str, Callable[[Any, Any], Any]] = {
    "BRANCH_LEQ": python.le,
    "BRANCH_LT": python.lt,
    "BRANCH_GTE": python.ge,
    "BRANCH_GT": python.gt,
    "BRANCH_EQ": python.eq,
    "BRANCH_NEQ": python.ne,
}
"""In the order in which TreeEnsemble numbers them."""
SPLITS = (-2.0, -0.5, 0.0, 0.25, 0.5, 1.0, 3.0)
WEIGHTS = (-1.5, -0.25, 0.0, 0.125, 0.5, 1.0, 2.0)


def is_leaf(tree):
    """Whether a tree is a leaf."""
    return not isinstance(tree[0], str)


def decisions(tree):
    """The decisions of a tree, each before those below it, the side that holds first."""
    if not is_leaf(tree):
        yield tree
        for side in tree[3:]:
            yield from decisions(side)


def leaves(tree):
    """The leaves of a tree."""
    if is_leaf(tree):
        yield tree
    else:
        for side in tree[3:]:
            yield from leaves(side)


def pairs(tree):
    """The pairs of a tree's leaves."""
    for leaf in leaves(tree):
        yield from leaf


def grown(draw, depth, targets, modes):
    """A random tree; targets of leaves are below `targets`."""
    if depth == 0 or draw.chance(0.2):
        return ((draw.integer(0, targets - 1), draw.choice(WEIGHTS)),)
    sides = (grown(draw, depth - 1, targets, modes) for _ in range(2))
    return draw.choice(modes), draw.integer(0, 3), draw.choice(SPLITS), *sides


def forest(targets, several=True, modes=tuple(MODES)):
    """An attribute of one to four trees; most have one mode throughout. Each target has a leaf.

    several: whether leaves may have several pairs.
    """

    def drawn(draw, op, *_):
        own = draw.choice((modes, (draw.choice(modes),), ("BRANCH_LEQ",)))
        count = targets(op)
        first = _covering(draw, own, count)
        if several and draw.chance(0.4):
            first = _spread(first, count, draw)
        depths = [draw.integer(1, 4) for _ in range(draw.integer(0, 3))]
        rest = [grown(draw, depth, count, own) for depth in depths]
        return (first, *(t for t in rest if not is_leaf(t)))

    return Choice(by=drawn)


def _covering(draw, modes, targets):
    """A tree with leaves of all targets."""
    tree: Tree = ((0, draw.choice(WEIGHTS)),)
    for target in range(max(1, targets - 1), 0, -1):
        leaf = ((min(target, targets - 1), draw.choice(WEIGHTS)),)
        sides = (leaf, tree) if draw.chance(0.5) else (tree, leaf)
        tree = (draw.choice(modes), draw.integer(0, 3), draw.choice(SPLITS), *sides)
    return tree


def _spread(tree, targets, draw):
    """The tree with leaves of all targets."""
    if is_leaf(tree):
        return tuple((target, draw.choice(WEIGHTS)) for target in range(targets))
    return *tree[:3], *(_spread(side, targets, draw) for side in tree[3:])


class Forest(OpSpec):
    """(N, F) -> (N, targets): the sum, mean, minimum or maximum of what the trees give.

    The minimum and the maximum are for one target.
    """

    def __init__(self, trees, targets, aggregate="SUM", base=()):
        self.trees, self.targets = trees, targets
        self.aggregate, self.base = aggregate, base

    def torch(self, x):
        values = as_floats(x)
        return self._joined([self._chosen(t, x, values.dtype) for t in self.trees])

    def _leaf(self, leaf, rows, dtype):
        y = torch.zeros(rows, self.targets, dtype=dtype)
        for target, weight in leaf:
            y[:, target] = weight
        return y

    def _chosen(self, tree, x, dtype):
        if is_leaf(tree):
            return self._leaf(tree, len(x), dtype)
        mode, feature, split, *sides = tree
        holds, fails = (self._chosen(side, x, dtype) for side in sides)
        return torch.where(MODES[mode](x[:, feature : feature + 1], split), holds, fails)

    def _joined(self, parts):
        stacked = torch.stack(parts)
        if self.aggregate in ("MIN", "MAX"):
            y = stacked.amin(0) if self.aggregate == "MIN" else stacked.amax(0)
        else:
            y = stacked.sum(0) / (len(parts) if self.aggregate == "AVERAGE" else 1)
        return y + torch.tensor(self.base, dtype=y.dtype) if self.base else y

    def proxy(self, x):
        return as_floats(x).sum(-1, keepdim=True).expand(-1, self.targets)

    def margins(self, x):
        if not x.is_floating_point():
            return []
        made = [d for tree in self.trees for d in decisions(tree)]
        return [(x[:, d[1]] - d[2]).abs() for d in made]

    def interval(self, x):
        parts = [self._ends(tree, x, as_floats(x.lo).dtype) for tree in self.trees]
        lo, hi = (self._joined([part[i] for part in parts]) for i in (0, 1))
        read = sorted({d[1] for tree in self.trees for d in decisions(tree)})
        mask = None if x.any is None else x.any[:, read].any(-1, keepdim=True).expand_as(lo)
        return [Interval(lo, hi, mask)]

    def _ends(self, tree, x, dtype):
        """The least and greatest result of a tree."""
        if is_leaf(tree):
            y = self._leaf(tree, len(x.lo), dtype)
            return y, y
        mode, feature, split, *sides = tree
        low, high = (e[:, feature : feature + 1] for e in (x.lo, x.hi))
        surely, never = _certain(mode, low, high, split)
        holds, fails = (self._ends(side, x, dtype) for side in sides)
        both = torch.minimum(holds[0], fails[0]), torch.maximum(holds[1], fails[1])
        return tuple(
            torch.where(surely, h, torch.where(never, f, b)) for h, f, b in zip(holds, fails, both)
        )

    def radius(self, u, y, x):
        weights = sum(max(abs(w) for _, w in pairs(tree)) for tree in self.trees)
        exact = not self.base and self.aggregate in ("MIN", "MAX")
        size = weights + max(map(abs, self.base), default=0.0)
        return 0.0 if exact else max(u, 2**-24) * (len(self.trees) + 3) * size


def _certain(mode, low, high, split):
    """Masks of where a decision holds for certain, and where it does not for certain."""
    if mode in ("BRANCH_EQ", "BRANCH_NEQ"):
        same = (low == split) & (high == split)
        differs = (low > split) | (high < split)
        return (same, differs) if mode == "BRANCH_EQ" else (differs, same)
    holds = MODES[mode]
    return holds(low, split) & holds(high, split), ~holds(low, split) & ~holds(high, split)


# -- how models write trees -------------------------------------------------------------------


@dataclass
class Table:
    """The nodes and leaves of several trees as lists, as the older operators have them."""

    nodes: dict[str, list[Any]] = field(default_factory=dict)
    leaves: list[tuple[int, int, int, float]] = field(default_factory=list)
    """Tree, node, target, weight."""

    def add(self, tree, number):
        """Adds a tree; returns the number of its root within it."""
        order: list[Tree] = []

        def place(part):
            at = len(order)
            order.append(part)
            row = dict(treeids=number, nodeids=at, falsenodeids=0, truenodeids=0)
            row |= dict(featureids=0, values=0.0, modes="LEAF", missing_value_tracks_true=0)
            columns = [self.nodes.setdefault(name, []) for name in row]
            for column, value in zip(columns, row.values()):
                column.append(value)
            index = len(columns[0]) - 1
            if is_leaf(part):
                self.leaves += [(number, at, *pair) for pair in part]
                return at
            self.nodes["modes"][index] = part[0]
            self.nodes["featureids"][index] = part[1]
            self.nodes["values"][index] = part[2]
            self.nodes["truenodeids"][index] = place(part[3])
            self.nodes["falsenodeids"][index] = place(part[4])
            return at

        return place(tree)


def written(trees, stem):
    """The attributes of trees in the older operators; stem: "target" or "class"."""
    table = Table()
    for number, tree in enumerate(trees):
        table.add(tree, number)
    names = ("treeids", "nodeids", "ids", "weights")
    columns = zip(names, zip(*table.leaves))
    nodes = {f"nodes_{name}": tuple(column) for name, column in table.nodes.items()}
    return {**nodes, **{f"{stem}_{name}": column for name, column in columns}}


def read(fields, stem):
    """The trees that attributes of the older operators say. Raises: KeyError where a leaf has no
    weight or an attribute is missing."""
    rows = list(zip(*(fields[f"nodes_{n}"] for n in ("treeids", "nodeids"))))
    at = {key: i for i, key in enumerate(rows)}
    ends = zip(*(fields[f"{stem}_{n}"] for n in ("treeids", "nodeids", "ids", "weights")))
    weights: dict[tuple[int, int], Tree] = {}
    for tree, node, *pair in ends:
        weights[tree, node] = (*weights.get((tree, node), ()), tuple(pair))

    def part(tree, node):
        i = at[tree, node]
        if fields["nodes_modes"][i] == "LEAF":
            return weights[tree, node]
        sides = (fields[f"nodes_{side}nodeids"][i] for side in ("true", "false"))
        number = fields["nodes_featureids"][i], fields["nodes_values"][i]
        return fields["nodes_modes"][i], *number, *(part(tree, side) for side in sides)

    roots: dict[int, int] = {}
    children = {
        (tree, fields[f"nodes_{side}nodeids"][i])
        for i, (tree, node) in enumerate(rows)
        if fields["nodes_modes"][i] != "LEAF"
        for side in ("true", "false")
    }
    for tree, node in rows:
        if (tree, node) not in children:
            roots.setdefault(tree, node)
    return tuple(part(tree, node) for tree, node in roots.items())


class Ensemble(Scored):
    """Base of the operators on trees."""

    trees: Any

    def requires(self, x):
        yield from super().requires(x)
        used = [d[1] for tree in self.trees for d in decisions(tree)]
        yield x.shape[1] > max(used, default=0)
        # Runtimes add up what a leaf gives to one target, and the standard does not say so.
        yield all(len(dict(leaf)) == len(leaf) for tree in self.trees for leaf in leaves(tree))

    def cost(self, x):
        return 4 * x.shape[0] * sum(1 for tree in self.trees for _ in pairs(tree))


AGGREGATED = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMED = ("NONE", "SOFTMAX", "LOGISTIC")
"""How TreeEnsemble numbers them."""
AGGREGATES = Choice(
    lambda op, *_: ("SUM", "SUM", "AVERAGE", *(("MIN", "MAX") if op.targets == 1 else ()))
)


class Regressing(Ensemble):
    """Ensembles that give numbers."""

    aggregate: str

    def requires(self, x):
        yield from super().requires(x)
        # The standard does not say what the least or greatest of no leaves is.
        yield self.targets == 1 or self.aggregate in ("SUM", "AVERAGE")

    def scores(self):
        return Forest(self.trees, self.targets, self.aggregate)


@ml
class TreeEnsembleRegressor(Regressing):
    """Source: ai.onnx.ml.TreeEnsembleRegressor-3."""

    inputs = (In("T", (DType.FLOAT32, DType.INT64, DType.INT32), (2, 2)),)
    targets = Choice((1, 1, 2, 3))
    aggregate = AGGREGATES
    trees = forest(lambda op: op.targets)
    base = Choice(by=lambda draw, op, *_: draw.choice(((), (), (0.5,) * op.targets)))
    post_transform = Choice(lambda op, *_: TRANSFORMS if op.targets > 1 else TRANSFORMS[:3])

    def scores(self):
        return Forest(self.trees, self.targets, self.aggregate, self.base)

    def onnx(self, emit, x):
        given = {"n_targets": self.targets, "aggregate_function": self.aggregate}
        given |= {"post_transform": self.post_transform, "base_values": self.base or None}
        return emit(self.name, x, **given, **written(self.trees, "target"))

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        return cls(
            targets=fields["n_targets"],
            aggregate=fields["aggregate_function"],
            trees=read(fields, "target"),
            base=fields.get("base_values") or (),
            post_transform=fields["post_transform"],
        )


@ml
class TreeEnsembleClassifier(Ensemble, Classifying):
    """Source: ai.onnx.ml.TreeEnsembleClassifier-3, whose classes are integers.

    With two classes and all weights on the first id, a sum s of weights is the score of the second
    class. The standard does not say so: `requires` admits what ONNX Runtime and onnx.reference
    agree on. The scores are (1 - s, s) where no weight is negative, and sigmoid(-s), sigmoid(s)
    behind LOGISTIC where one is.
    """

    inputs = TreeEnsembleRegressor.inputs
    classes = CLASSES
    labels = LABELS
    trees = forest(lambda op: op.classes)
    base = Choice(by=lambda draw, op, *_: draw.choice(((), (), (0.5,) * op.classes)))
    post_transform = Choice(TRANSFORMS)

    def requires(self, x):
        yield from super().requires(x)
        used = {target for target, _ in self._pairs()}
        yield max(used) < self.classes
        yield len(self.base) in (0, 1 if self.classes == 2 and len(used) == 1 else self.classes)
        if self.classes == 2 and len(used) == 1:
            negative = min(weight for _, weight in self._pairs()) < 0
            yield used == {0}
            yield self.post_transform == ("LOGISTIC" if negative else "NONE")

    def _pairs(self):
        return [pair for tree in self.trees for pair in pairs(tree)]

    def scores(self):
        return Forest(self.trees, self.classes, base=self.base)

    def compose(self, apply, x):
        if self.classes > 2 or any(target for target, _ in self._pairs()):
            return super().compose(apply, x)
        constant = 1.0 if self.post_transform == "NONE" else 0.0
        both = Affine([[-1.0], [1.0]], [constant, 0.0])
        scores = apply(both, apply(Forest(self.trees, 1, base=self.base), x))
        scores = transformed(apply, scores, self.post_transform)
        return [apply(Label(self.labels), scores), scores]

    def onnx(self, emit, x):
        given = {"classlabels_int64s": self.labels, "post_transform": self.post_transform}
        given["base_values"] = self.base or None
        return emit(self.name, x, outputs=2, **given, **written(self.trees, "class"))

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        labels, base = fields["classlabels_int64s"], fields.get("base_values") or ()
        known = {"trees": read(fields, "class"), "post_transform": fields["post_transform"]}
        return cls(classes=len(labels), labels=labels, base=base, **known)


@ml
class TreeEnsemble(Regressing):
    """Source: ai.onnx.ml.TreeEnsemble-5."""

    since = 21
    inputs = (In("T", (DType.FLOAT32, DType.FLOAT64), (2, 2)),)
    output = "T"
    targets = Choice((1, 1, 2, 3))
    aggregate = AGGREGATES
    trees = forest(lambda op: op.targets, several=False)
    post_transform = Choice(lambda op, *_: TRANSFORMS if op.targets > 1 else TRANSFORMS[:3])

    def onnx(self, emit, x):
        dtype = emit.type(x).dtype
        lists: dict[str, list[Any]] = {}
        ends: list[tuple[int, float]] = []

        def place(tree):
            """Adds a decision; returns its position."""
            at = len(lists.setdefault("modes", []))
            row = dict(modes=list(MODES).index(tree[0]), featureids=tree[1], splits=tree[2])
            row |= dict(truenodeids=0, falsenodeids=0, trueleafs=0, falseleafs=0)
            for name, value in row.items():
                lists.setdefault(name, []).append(value)
            for side, part in zip(("true", "false"), tree[3:]):
                lists[f"{side}leafs"][at] = int(is_leaf(part))
                if is_leaf(part):
                    ends.append(*part)
                    lists[f"{side}nodeids"][at] = len(ends) - 1
                else:
                    lists[f"{side}nodeids"][at] = place(part)
            return at

        roots = [place(t if not is_leaf(t) else ("BRANCH_LEQ", 0, 0.0, t, t)) for t in self.trees]
        tensors = {"modes": DType.UINT8, "splits": dtype}
        given = {
            f"nodes_{name}": np.array(column, tensors[name].numpy) if name in tensors else column
            for name, column in lists.items()
        }
        return emit(
            self.name,
            x,
            tree_roots=roots,
            n_targets=self.targets,
            aggregate_function=AGGREGATED.index(self.aggregate),
            post_transform=TRANSFORMED.index(self.post_transform),
            leaf_targetids=[target for target, _ in ends],
            leaf_weights=np.array([weight for _, weight in ends], dtype.numpy),
            **given,
        )

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        modes, splits, weights = (
            onnx.numpy_helper.to_array(fields[name]).tolist()
            for name in ("nodes_modes", "nodes_splits", "leaf_weights")
        )
        ends = [((target, w),) for target, w in zip(fields["leaf_targetids"], weights)]

        def part(at, leaf):
            if leaf:
                return ends[at]
            sides = (
                part(fields[f"nodes_{side}nodeids"][at], fields[f"nodes_{side}leafs"][at])
                for side in ("true", "false")
            )
            return list(MODES)[modes[at]], fields["nodes_featureids"][at], splits[at], *sides

        return cls(
            targets=fields["n_targets"],
            aggregate=AGGREGATED[fields["aggregate_function"]],
            trees=tuple(part(root, False) for root in fields["tree_roots"]),
            post_transform=TRANSFORMED[fields["post_transform"]],
        )


NUMBERED = (
    'TreeEnsemble-5: post_transform: \'One of "NONE" (0), "SOFTMAX" (1), "LOGISTIC" (2), '
    '"SOFTMAX_ZERO" (3) or "PROBIT" (4)\''
)
WAIVERS = {
    TreeEnsembleClassifier.name: (
        Waiver(
            "onnxruntime",
            "labels a row by the classes alone of which it reaches a leaf (onnxruntime 1.32)",
            'TreeEnsembleClassifier-3: Y is the "Top class for each point", Z "The class score for '
            'each class"',
            where=lambda op, *_: any(w < 0 for tree in op.trees for _, w in pairs(tree)),
        ),
    ),
    TreeEnsembleRegressor.name: (
        NOT_APPLIED,
        integers("TreeEnsembleRegressor-3"),
        Waiver(
            "onnxruntime",
            "adds no base value to a target of which a row reaches no leaf (onnxruntime 1.32)",
            'TreeEnsembleRegressor-3: base_values are "added to final prediction after applying '
            'aggregate_function"',
            where=lambda op, *_: len(op.base) > 1,
        ),
    ),
    TreeEnsemble.name: (
        Waiver(
            "onnxruntime",
            "takes SOFTMAX for LOGISTIC and LOGISTIC for SOFTMAX (onnxruntime 1.31)",
            NUMBERED,
            where=lambda op, *_: op.post_transform != "NONE",
        ),
        reference(
            "ignores post_transform",
            NUMBERED,
            where=lambda op, *_: op.post_transform != "NONE",
        ),
    ),
}
