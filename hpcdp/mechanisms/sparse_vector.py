"""The sparse vector technique: the six variants of Lyu, Su and Li, two correct and four faulty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import integer, positive, real, refusal
from hpcdp.mechanisms._batches import NUMBERS, blocks
from hpcdp.mechanisms.additive import vector

Variant = Literal[1, 2, 3, 4, 5, 6]


@dataclass(frozen=True)
class SparseVector:
    """A variant at its parameters."""

    rho: float  # scale of the threshold's noise
    nu: float  # scale of a query's noise, 0 for none
    redraw: bool  # whether the threshold's noise is drawn anew after each "above"
    release: bool  # whether "above" shows the noisy answer
    cutoff: int | None  # None for all queries


def sparse_vector(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    variant: Variant,
    epsilon: float,
    threshold: float = 0.0,
    cutoff: int = 1,
    sensitivity: float = 1.0,
) -> NDArray[Any]:
    """Draw which of K query answers are above a noisy threshold, by one of six published variants.

    Query i is above iff q_i + nu_i >= threshold + rho, with Laplace noise; after c = `cutoff` queries above, the
    rest is not answered. The variants are Alg. 1 to 6 of Lyu, Su and Li (VLDB 2017); scales are in units of
    `sensitivity` / epsilon.

    | variant | rho | nu | stops | is it epsilon-DP? |
    | --- | --- | --- | --- | --- |
    | 1 | 2 | 4c | after c | yes |
    | 2 | 2c, anew after each above | 4c | after c | yes (equals variant 1 when c = 1) |
    | 3 | 2 | 2c | after c | no: up to K · epsilon / (2c), without bound as K grows; it releases the noisy answer |
    | 4 | 4 | 4/3 | after c | no: (1 + 6c) / 4 · epsilon |
    | 5 | 2 | none | never | no finite level: some outputs are impossible for one neighbour |
    | 6 | 2 | 2 | never | no: up to K · epsilon / 2, without bound as K grows |

    The bounds in K follow from the noise of the K answers alone. Lu et al. 2024, Fig. 9a, show variant 5 as SVT3.

    Args:
        database: the K query answers, finite numbers of any shape; taken as a vector.
        variant: 1 to 6.
        threshold: what the answers are compared with, finite.
        cutoff: after how many queries above it stops, >= 1; variants 5 and 6 have none and take 1 only.
        sensitivity: how far one answer can move between neighbours, > 0.

    Returns:
        Variants 1, 2 and 4: int64 indices of the queries above, from 0 and ascending, (size,) for cutoff 1, else
        (size, cutoff); places not used hold K. Variant 3: float64 (size, 2 · cutoff), index and noisy answer in turn;
        places not used hold K and 0. Variants 5 and 6: bool (size, K), or (size,) for one query.
    """
    rules = sparse_vector_variant(variant, epsilon, cutoff, sensitivity)
    gaps = real("threshold", threshold) - vector(database)
    if rules.cutoff is None:
        return _bits(gaps, rules, size, rng)
    index, value = _above(gaps, float(threshold), rules, rules.cutoff, size, rng)
    if rules.release:
        return np.stack([index, value], axis=2).reshape(size, 2 * rules.cutoff)
    return index[:, 0] if rules.cutoff == 1 else index


def sparse_vector_variant(variant: int, epsilon: float, cutoff: int = 1, sensitivity: float = 1.0) -> SparseVector:
    """Return the noise scales and the rules of a variant."""
    if isinstance(variant, bool) or variant not in (1, 2, 3, 4, 5, 6):
        raise refusal("variant", variant, "1, 2, 3, 4, 5 or 6")
    count = integer("cutoff", cutoff, 1)
    if variant >= 5 and count != 1:
        raise refusal("cutoff", cutoff, f"no cutoff with variant {variant}, which answers all queries")
    unit = positive("sensitivity / epsilon", positive("sensitivity", sensitivity) / positive("epsilon", epsilon))
    rho, nu = {
        1: (2.0, 4.0 * count),
        2: (2.0 * count, 4.0 * count),
        3: (2.0, 2.0 * count),
        4: (4.0, 4.0 / 3.0),
        5: (2.0, 0.0),
        6: (2.0, 2.0),
    }[variant]
    return SparseVector(rho * unit, nu * unit, variant == 2, variant == 3, None if variant >= 5 else count)


def _above(
    gaps: NDArray[np.float64], threshold: float, rules: SparseVector, cutoff: int, size: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Indices (size, cutoff) of the queries above, and their noisy answers, or an array of no rows."""
    from hpcdp.mechanisms._kernels import draw_above

    index = np.empty((size, cutoff), np.int64)
    value = np.empty((size if rules.release else 0, cutoff))
    worst, done = gaps.size + cutoff, 0  # uniforms that one draw may need
    while done < size:
        # What is left of a block is thrown away unseen, so a block holds many draws.
        uniforms = rng.random(min(max(NUMBERS, 16 * worst), worst * (size - done)))
        done += draw_above(
            gaps, threshold, rules.rho, rules.nu, rules.redraw, rules.release, uniforms, index[done:], value[done:]
        )
    return index, value


def _bits(gaps: NDArray[np.float64], rules: SparseVector, size: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which queries are above, (size, K), or (size,) for one query."""
    from hpcdp.mechanisms._kernels import draw_bits

    distinct, place = np.unique(gaps, return_inverse=True)
    out = np.empty((size, gaps.size), np.bool_)
    width = 1 + (gaps.size if rules.nu > 0.0 else 0)
    for block in blocks(size, width):
        part = out[block]
        draw_bits(distinct, place, rules.rho, rules.nu, rng.random((part.shape[0], width)), part)
    return out[:, 0] if gaps.size == 1 else out
