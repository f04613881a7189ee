"""Databases of fair coins for Figure 8."""

import numpy as np
from numpy.typing import NDArray


def coins(size: int, rng: np.random.Generator, *, rows: int) -> NDArray[np.bool_]:
    """`size` databases of independent fair coins, True for heads, shape (size, rows)."""
    return rng.integers(0, 2, (size, rows), dtype=np.bool_)


class ManyCoins:
    """The same databases, and their number of heads without drawing the coins one by one."""

    def __call__(self, size: int, rng: np.random.Generator, *, rows: int) -> NDArray[np.bool_]:
        """`size` databases, shape (size, rows)."""
        return coins(size, rng, rows=rows)

    def outputs(self, size: int, rng: np.random.Generator, row: int, value: int, *, rows: int) -> NDArray[np.int64]:
        """Heads of `size` databases with one coin held at a value: the others are binomial. Shape (size,)."""
        return rng.binomial(rows - 1, 0.5, size) + value


many_coins = ManyCoins()
