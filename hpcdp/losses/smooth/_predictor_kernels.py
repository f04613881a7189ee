"""Kernel of a polynomial of degree 2 in standardised columns: the same bits for an output whatever stands beside it."""

from __future__ import annotations

import math

from hpcdp._base.kernels import kernel


@kernel()
def predict(rows, centre, scale, straight, constant, linear, products, out):  # type: ignore[no-untyped-def]
    """out[i] = constant + Σ z_j·(linear_j + Σ_{l >= j} products_jl·z_l) of rows (size, d); products (d, d) or (0, 0).

    z is (x − centre)/scale; beyond ±straight it grows with the logarithm only.
    """
    d = rows.shape[1]
    z = centre.copy()
    for i in range(rows.shape[0]):
        for j in range(d):
            value = (rows[i, j] - centre[j]) / scale[j]
            size = min(abs(value), 1e300)
            if size > straight:
                size = straight + math.log1p(size - straight)
                value = size if value > 0 else -size
            z[j] = value
        total = constant
        for j in range(d):
            inner = linear[j]
            for k in range(j, products.shape[0]):
                inner += products[j, k] * z[k]
            total += z[j] * inner
        out[i] = total
