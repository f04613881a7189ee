"""Local mechanisms: randomised response and RAPPOR."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import fraction, integer, positive, refusal
from hpcdp.analytic._binomial import binomial_log_pmf
from hpcdp.analytic.discrete import Discrete

Array = NDArray[np.float64]


def randomized_response_pair(differing: int, *, epsilon: float, values: int = 2) -> Discrete:
    """Return the exact pair of k-ary randomised response on rows of which some differ, each answered independently.

    A row keeps its value with probability e^epsilon / (e^epsilon + k - 1) and else takes one of the others. The loss
    of a row that differs is epsilon at D's value, -epsilon at that of D', and 0 elsewhere; the outcomes here are
    the sums over the rows that differ, -m ... m in units of epsilon. For one row delta is
    (e^epsilon - e^x) / (e^epsilon + k - 1) at level x < epsilon.

    Args:
        differing: how many rows differ, m >= 0.
        epsilon: the level of one row, > 0.
        values: how many values a row may have, k >= 2.

    Raises:
        ValueError: a value out of range.
    """
    count, level, others = (
        integer("differing", differing, 0),
        positive("epsilon", epsilon),
        integer("values", values, 2),
    )
    share = 1.0 / (1.0 + (others - 1) * np.exp(-level))
    one_row = np.array([share * np.exp(-level), (others - 2) * share * np.exp(-level), share])
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, one_row)
    net = np.arange(-count, count + 1)
    # The pair is symmetric: q of a sum is p of its negative, which is e^-loss times as likely.
    p = np.where(net >= 0, total, total[::-1] * np.exp(level * np.minimum(net, 0)))
    return Discrete(p, p[::-1])


def rappor_pair(
    first: ArrayLike,
    second: ArrayLike,
    *,
    f: float = 0.75,
    p: float = 0.45,
    q: float = 0.55,
    one_time: bool = False,
) -> Discrete:
    """Return the exact pair of one RAPPOR report of two Bloom filters (Erlingsson, Pihur and Korolova 2014).

    Bits are reported independently, so only those that differ matter, and of them how many are reported as 1 among
    those set in `first` only and among those set in `second` only: a sum of two independent binomials.

    Args:
        first, second: the bits of the filters under D and under D', (bits,) of 0 and 1.
        f: probability that a permanent bit is replaced by a fair coin, from 0 to 1.
        p, q: probabilities that a reported bit is 1 when the permanent one is 0 and 1, from 0 to 1.
        one_time: the permanent bits are what is reported; p and q then play no part.

    Raises:
        ValueError: a value out of range, or shapes that differ.
    """
    one, other = _bits("first", first), _bits("second", second)
    if one.shape != other.shape:
        raise refusal("second", other, f"as many bits as first, {one.size}")
    swapped = 0.5 * fraction("f", f)
    low, high = fraction("p", p), fraction("q", q)
    # A permanent bit keeps what the filter says but for `swapped`; then the report reads it with p or q.
    unset, set_ = swapped, 1.0 - swapped
    if not one_time:
        unset, set_ = ((1.0 - bit) * low + bit * high for bit in (unset, set_))
    only_first, only_second = int(np.sum(one & ~other)), int(np.sum(other & ~one))
    laws = [
        np.add.outer(binomial_log_pmf(only_first, mine), binomial_log_pmf(only_second, theirs)).ravel()
        for mine, theirs in ((set_, unset), (unset, set_))
    ]
    return Discrete(*(np.exp(law) for law in laws))


def _bits(name: str, given: ArrayLike) -> NDArray[np.bool_]:
    bits = np.asarray(given)
    if bits.ndim != 1 or not bits.size or bits.dtype.kind not in "biuf" or not np.isin(bits, (0, 1)).all():
        raise refusal(name, given, "zeros and ones of shape (bits,)")
    return bits.astype(np.bool_)
