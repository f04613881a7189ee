"""Report noisy max: the four published variants, two correct and two faulty."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import positive, refusal
from hpcdp.mechanisms._batches import blocks
from hpcdp.mechanisms.additive import noise_scale, vector

Variant = Literal["NM1", "NM2", "NM3", "NM4"]

VARIANTS = {
    "NM1": ("laplace", "index"),
    "NM2": ("laplace", "value"),
    "NM3": ("exponential", "index"),
    "NM4": ("exponential", "value"),
}
"""Noise and output of each variant, numbered as in Lu et al. 2024, Fig. 9c."""


def noisy_max(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    variant: Variant,
    epsilon: float | None = None,
    scale: float | None = None,
    sensitivity: float = 1.0,
    monotonic: bool = False,
) -> NDArray[Any]:
    """Draw the index (NM1, NM3) or the value (NM2, NM4: faulty) of the largest of noisy query answers.

    Independent noise of one scale b is added to each of the K answers; a draw is where the maximum is, or the maximum.

    | variant | noise | output | Ding et al. 2018 | Bichsel et al. 2021 | epsilon-DP at b = 2 · sensitivity / epsilon |
    | --- | --- | --- | --- | --- | --- |
    | NM1 | Laplace | index | Alg. 5 | NoisyMax 1 | holds |
    | NM2 | Laplace | value | Alg. 7 | NoisyMax 3 | no: K · epsilon / 2, attained when all answers move together |
    | NM3 | exponential | index | Alg. 6 | NoisyMax 2 | holds |
    | NM4 | exponential | value | Alg. 8 | NoisyMax 4 | no: no finite level, since the supports differ |

    NM1 to NM4 are numbered by the rows of Fig. 9c of Lu et al. 2024. Where all answers move in one direction between
    neighbours (`monotonic`; counts when a row is removed), b = sensitivity / epsilon suffices for NM1 and NM3, and the
    true level of NM2 is K · epsilon. At any b the level of NM2 is K · sensitivity / b.

    Args:
        database: the query answers, finite numbers of any shape; taken as a vector of K numbers.
        size: how many outputs.
        rng: the source of randomness.
        variant: "NM1", "NM2", "NM3" or "NM4".
        epsilon: the nominal privacy level, > 0; exactly one of `epsilon` and `scale`.
        scale: the noise scale b itself, > 0.
        sensitivity: how far one answer can move between neighbours, > 0; used with `epsilon` only.
        monotonic: whether all answers move in one direction; used with `epsilon` only.

    Returns:
        int64 indices from 0, or float64 values, of shape (size,).

    Raises:
        ValueError: a parameter or the database is refused.
    """
    noise, output = noisy_max_variant(variant)
    spread = noisy_max_scale(epsilon, scale, sensitivity, monotonic)
    answers = vector(database)
    out = np.zeros(size, np.int64 if output == "index" else np.float64)
    for block in blocks(size, 1):
        part = out[block]
        top, drawn, other = np.full(part.size, -np.inf), np.empty(part.size), np.empty(part.size)
        for index, answer in enumerate(answers):
            rng.standard_exponential(out=drawn)
            if noise == "laplace":  # the difference of two exponentials: half the time of rng.laplace
                drawn -= rng.standard_exponential(out=other)
            drawn *= spread
            drawn += answer
            if output == "index":
                np.copyto(part, index, where=drawn > top)
            np.maximum(top, drawn, out=top)
        if output == "value":
            part[:] = top
    return out


def noisy_max_variant(variant: str) -> tuple[str, str]:
    """Return the noise ("laplace" or "exponential") and the output ("index" or "value") of a variant.

    Raises:
        ValueError: an unknown variant.
    """
    if not isinstance(variant, str) or variant not in VARIANTS:
        raise refusal("variant", variant, " or ".join(f'"{name}"' for name in VARIANTS))
    return VARIANTS[variant]


def noisy_max_scale(
    epsilon: float | None, scale: float | None = None, sensitivity: float = 1.0, monotonic: bool = False
) -> float:
    """Return the scale of the noise: `scale`, or 2 · sensitivity / epsilon, or half of it when monotonic.

    Raises:
        ValueError: both or none of `epsilon` and `scale`, or a value out of range.
    """
    if not isinstance(monotonic, bool):
        raise refusal("monotonic", monotonic, "true or false")
    moved = positive("sensitivity", sensitivity)
    return noise_scale(epsilon, moved if monotonic else 2.0 * moved, scale)
