"""Heat maps of an output: what was expected, what a target returned, and how far outside that is.

Each is a self-contained SVG without scripts, like a drawing of a graph.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from markupsafe import Markup

from nnfuzz.findings.text import environment
from nnfuzz.ir.dtypes import plain

CELLS = 32
"""Most rows and columns of a map; a cell of a larger output is its worst element of a block."""
SHADES = 9
"""Shades of a map; the first is the least, or right."""
ODD, UNKNOWN = "odd", "unknown"
"""In place of a shade: no finite number; not compared."""


def heat_maps(
    expected: np.ndarray,
    actual: np.ndarray,
    excess: np.ndarray | None = None,
    compared: np.ndarray | None = None,
) -> Markup | None:
    """Three maps beside each other; None where the shapes differ or there is nothing to show.

    The arrays have one shape; the last axis runs to the right, all others run down. excess: the
    distance of each element from what is right; default: from what is expected. compared: a mask;
    default: all of it.
    """
    if expected.shape != actual.shape or not expected.size:
        return None
    if excess is None:
        with np.errstate(invalid="ignore", over="ignore"):
            away = np.abs(plain(actual).astype(np.float64) - plain(expected).astype(np.float64))
        excess = np.nan_to_num(away, nan=np.inf, posinf=np.inf)
    chosen = _chosen(excess)
    known = np.ones(chosen.shape, bool) if compared is None else compared.reshape(-1)[chosen]
    wanted, given = (plain(a).astype(np.float64).reshape(-1)[chosen] for a in (expected, actual))
    ends = [v[np.isfinite(v) & known] for v in (wanted, given)]
    both = np.concatenate(ends)
    least, most = (float(both.min()), float(both.max())) if both.size else (0.0, 0.0)
    values = f"{least:.4g} to {most:.4g}"
    maps = [
        (f"{what}: {values}", _paths(_linear(v, least, most), known))
        for what, v in (("expected", wanted), ("actual", given))
    ]
    off = np.where(known, excess.reshape(-1)[chosen], 0.0)
    furthest = float(off.max())
    maps.append((f"outside: up to {furthest:.3g}", _paths(_logarithmic(off), known)))
    rows, columns = chosen.shape
    template = environment(html=True).get_template("heat.svg.jinja")
    return Markup(template.render(maps=maps, rows=rows, columns=columns))


def _chosen(excess: np.ndarray) -> np.ndarray:
    """The flat index of the worst element of each block; shape (rows, columns) of the map."""
    rows = excess.reshape(-1, excess.shape[-1] if excess.ndim else 1)
    index = np.arange(rows.size).reshape(rows.shape)
    flat = np.nan_to_num(rows.reshape(-1), nan=np.inf)
    bands = np.array_split(index, min(CELLS, len(rows)))
    count = min(CELLS, rows.shape[1])
    blocks = [[b.reshape(-1) for b in np.array_split(band, count, 1)] for band in bands]
    return np.array([[b[np.argmax(flat[b])] for b in band] for band in blocks])


def _linear(values: np.ndarray, least: float, most: float) -> np.ndarray:
    """Shades of numbers, -1 where they are not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        part = (values - least) / ((most - least) or 1.0)
    shade = np.minimum(np.clip(np.nan_to_num(part), 0, 1) * SHADES, SHADES - 1).astype(int)
    return np.where(np.isfinite(values), shade, -1)


def _logarithmic(off: np.ndarray) -> np.ndarray:
    """Shades of distances by their logarithm: 0 where nothing is off, -1 where it is infinite."""
    finite = off[(off > 0) & np.isfinite(off)]
    if not finite.size:
        return np.where(off > 0, -1, 0)
    with np.errstate(divide="ignore"):
        shades = 1 + _linear(np.log(off), *np.log([finite.min(), finite.max()])) * 7 // 8
    return np.where(off > 0, np.where(np.isfinite(off), shades, -1), 0)


def _paths(shades: np.ndarray, known: np.ndarray) -> dict[str, str]:
    kinds = np.where(known, shades, -2)
    names = {-1: ODD, -2: UNKNOWN}
    return {
        str(names.get(kind, kind)): "".join(_cells(kinds == kind))
        for kind in sorted(set(kinds.reshape(-1).tolist()))
    }


def _cells(mask: np.ndarray) -> Iterator[str]:
    for row, column in np.argwhere(mask).tolist():
        yield f"M{column} {row}h1v1h-1z"
