"""Draws cut into blocks, so that the noise of many columns stays in the cache and memory does not grow with the draws."""

from collections.abc import Iterator

NUMBERS = 1 << 16
"""Numbers in a block."""


def blocks(size: int, width: int) -> Iterator[slice]:
    """Slices of 0 … size - 1 in order, each of so many draws of `width` numbers as a block holds, at least one draw."""
    step = max(1, NUMBERS // max(1, width))
    for start in range(0, size, step):
        yield slice(start, min(size, start + step))
