"""The values of a graph in its twin: as floats, as codes, and as floats made of codes."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.carriers import array
from nnfuzz.operators.families.quantized import BYTES
from nnfuzz.operators.motif import Misfit
from nnfuzz.vary.quantize.draft import Draft
from nnfuzz.vary.quantize.grid import Grid, tensor_grid, weight_grid

QUANTISED = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
"""Dtypes of floats that QuantizeLinear takes."""
WIDTHS: tuple[tuple[float, tuple[DType, ...]], ...] = (
    (0.62, BYTES),
    (0.2, (DType.UINT16, DType.INT16)),
    (0.08, (DType.UINT4, DType.INT4)),
    (0.1, (DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2)),
)
"""How often the codes of a value have which dtypes."""
WEIGHT_WIDTHS = (
    (0.6, BYTES),
    (0.1, (DType.UINT16, DType.INT16)),
    (0.22, (DType.UINT4, DType.INT4)),
    (0.08, (DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2)),
)
"""The same for the codes of constants."""
BLOCKS = (2, 4, 16, 16, 32, 32)
"""Sizes of blocks; kernels exist for 16 and more."""
AGAIN = 0.15
"""Probability that an operator gets a DequantizeLinear of its own."""
USUALLY = 0.85
"""Share of the values whose codes have the dtype that is usual in their model."""
DOUBLED = 0.08
"""Probability of a second pair behind the first one."""
SAME = 0.6
"""Probability that a second pair has the parameters of the first."""


@dataclass(frozen=True, eq=False)
class Codes:
    """Names of a quantised tensor, of its scale and of its zero point, if there is one."""

    name: str
    scale: str
    zero: str | None
    grid: Grid

    @property
    def params(self) -> tuple[str, ...]:
        """Scale and zero point, as QuantizeLinear and DequantizeLinear read them."""
        return (self.scale, self.zero) if self.zero is not None else (self.scale,)


@dataclass
class Held:
    """What the twin has of a value. plain: the float of the same name; "" if there is none."""

    plain: str
    codes: list[Codes] = field(default_factory=list)
    back: str = ""


class Values:
    """Every value of the original, in whatever form the twin needs it.

    constants: names of the weights of the original.
    """

    def __init__(self, draft: Draft, rng: random.Random, constants: Collection[str]) -> None:
        self.draft = draft
        self.rng = rng
        self.constants = frozenset(constants)
        self.held: dict[str, Held] = {}
        self.usual = rng.choice(drawn_width(rng, WIDTHS))
        """The dtype of most codes, as models have it: kernels want one for inputs and outputs."""

    def hold(self, name: str, plain: str = "", codes: Codes | None = None) -> None:
        """The twin has a value of the original: as a float (default: of the same name), or as codes
        alone.
        """
        self.held[name] = Held("", [codes]) if codes else Held(plain or name)

    def type(self, name: str) -> TensorType:
        """The type of a value as a float."""
        held = self.held[name]
        if held.plain:
            return self.draft.graph.type(held.plain)
        codes = held.codes[0]
        return self.draft.graph.type(codes.name).with_dtype(DType.of(codes.grid.scale.dtype))

    def read(self, name: str) -> str:
        """The value as a float: made of its codes if it has any and is no constant."""
        known = name not in self.constants and self.held[name].codes
        return self.through(name) if known else self.floats(name)

    def floats(self, name: str) -> str:
        """The value as a float that did not go through codes, if there is such."""
        return self.held[name].plain or self.through(name)

    def through(self, name: str) -> str:
        """The value as a float that went through codes. Raises: Misfit."""
        held = self.held[name]
        if not held.back or self.rng.random() < AGAIN:
            held.back = self.dequantised(self.codes(name), name)
            if self.rng.random() < DOUBLED and name not in self.constants:
                held.back = self._doubled(held.back, held.codes[0], name)
        return held.back

    def codes(self, name: str, among: Sequence[DType] = (), explicit: bool = False) -> Codes:
        """The value as codes of one of some dtypes, of any if there are none.

        explicit: with a zero point. Raises: Misfit.
        """
        for known in self.held[name].codes:
            fits = not among or known.grid.dtype in among
            if fits and known.grid.axis is None and (known.zero is not None or not explicit):
                return known
        found = self._coded(name, among, explicit)
        self.held[name].codes.append(found)
        return found

    def _coded(self, name: str, among: Sequence[DType], explicit: bool) -> Codes:
        """New codes of a value per tensor."""
        of = self.type(name).dtype
        if of not in QUANTISED:
            raise Misfit(f"{of.value} is not quantised")
        to = self.width(among)
        plain = self.floats(name)
        grid = tensor_grid(self.rng, self.draft.values[plain], of, to, explicit)
        if name in self.constants:
            return self.stored(name, grid)
        return self._put(plain, grid, name)

    def width(self, among: Sequence[DType] = ()) -> DType:
        """A dtype for the codes of a value: mostly the usual one, if it is among the admitted."""
        if self.rng.random() < USUALLY and (not among or self.usual in among):
            return self.usual
        return self.rng.choice(among or drawn_width(self.rng, WIDTHS))

    def _put(self, plain: str, grid: Grid, stem: str) -> Codes:
        """The codes of a float on a new grid. Raises: Misfit."""
        scale, zero = self.parameters(grid, stem)
        return self.quantised(plain, scale, zero, grid, stem)

    def quantised(self, plain: str, scale: str, zero: str | None, grid: Grid, stem: str) -> Codes:
        """The codes of a float on a grid whose parameters are there. Raises: Misfit."""
        given = (scale,) if zero is None else (scale, zero)
        own = {"axis": grid.axis, "to": grid.dtype}
        (found,) = self.draft.call("QuantizeLinear", plain, *given, stem=f"{stem}_q", **own)
        return Codes(found, scale, zero, grid)

    def parameters(self, grid: Grid, stem: str) -> tuple[str, str | None]:
        """New constants: the scale of a grid, and its zero point if it has one."""
        scale = self.draft.constant(grid.scale, f"{stem}_s")
        return scale, None if grid.zero is None else self.draft.constant(grid.zero, f"{stem}_z")

    def stored(self, name: str, grid: Grid) -> Codes:
        """A constant of the original, stored as codes."""
        codes = self.draft.constant(grid.codes(self.array(name)), f"{name}_q")
        return Codes(codes, *self.parameters(grid, name), grid)

    def array(self, name: str) -> np.ndarray:
        """The elements of a constant of the original."""
        return array(self.draft.values[name], self.draft.graph.type(name).dtype)

    def dequantised(self, codes: Codes, stem: str) -> str:
        """Codes as a float. Raises: Misfit."""
        block = codes.grid.block
        kind = "BlockDequantizeLinear" if block else "DequantizeLinear"
        own = {"axis": codes.grid.axis, "block_size": block}
        given = (codes.name, *codes.params)
        return self.draft.call(kind, *given, stem=f"{stem}_dq", **own)[0]

    def _doubled(self, back: str, first: Codes, stem: str) -> str:
        """A second pair behind the first: with the same parameters, or with others."""
        if self.rng.random() < SAME:
            again = self.quantised(back, first.scale, first.zero, first.grid, stem)
            return self.dequantised(again, stem)
        of = self.draft.graph.type(back).dtype
        to = self.width()
        grid = tensor_grid(self.rng, self.draft.values[back], of, to)
        return self.dequantised(self._put(back, grid, stem), stem)

    # -- weights ------------------------------------------------------------------------------

    def weight(
        self, name: str, axis: int | None, among: Sequence[DType] = (), block: int | None = None
    ) -> Codes:
        """A constant as codes, with a scale per index of an axis, per block, or one for all.

        Raises: Misfit if it is no constant.
        """
        if name not in self.constants or self.type(name).dtype not in QUANTISED:
            raise Misfit(f"{name} is no constant of floats")
        to = self.rng.choice(among or drawn_width(self.rng, WEIGHT_WIDTHS))
        return self.stored(name, weight_grid(self.rng, self.array(name), to, axis, block))

    def bias(self, name: str, left: Codes, right: Codes) -> tuple[np.ndarray, np.ndarray]:
        """A constant bias as int32, and its scale: the product of those of the operands.

        Raises: Misfit if there is no such scale, or if the integers are beyond 2^24.
        """
        if name not in self.constants or self.type(name).dtype is not DType.FLOAT32:
            raise Misfit(f"{name} is no constant bias")
        x, scale = self.array(name), np.asarray(left.grid.scale * right.grid.scale, np.float32)
        if x.ndim != 1 or right.grid.block or scale.shape not in ((), x.shape):
            raise Misfit("the scales of the product are not those of the bias")
        whole = np.rint(x.astype(np.float64) / scale)
        if not np.isfinite(whole).all() or np.abs(whole).max(initial=0) > 2**24:
            raise Misfit("the bias has too many steps")
        return whole.astype(np.int32), scale


def drawn_width(
    rng: random.Random, widths: Sequence[tuple[float, tuple[DType, ...]]]
) -> tuple[DType, ...]:
    """The dtypes of a width, which is drawn."""
    shares, dtypes = zip(*widths)
    found: tuple[DType, ...] = rng.choices(dtypes, shares)[0]
    return found
