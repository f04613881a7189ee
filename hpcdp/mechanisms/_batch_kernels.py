"""The kernel that draws random batches: the first steps of a shuffle."""

import numpy as np

from hpcdp._base.kernels import kernel


@kernel()
def fill_places(uniforms, rows, sizes, places):  # type: ignore[no-untyped-def]
    """Fill row i of places (draws, width) with sizes[i] different numbers below `rows`, every set being as likely.

    uniforms: in [0, 1), one for each number that is drawn. sizes: (draws,) int64, at most `width` and `rows`. places:
    int64; what lies beyond a row's size stays as it is.
    """
    deck = np.arange(rows)
    used = 0
    for draw in range(places.shape[0]):
        for top in range(sizes[draw]):
            # The steps of Fisher and Yates that decide the first places; the deck need not be sorted again, because
            # they give a uniform choice from whatever order they meet.
            other = top + int(uniforms[used] * (rows - top))
            used += 1
            deck[top], deck[other] = deck[other], deck[top]
            places[draw, top] = deck[top]
