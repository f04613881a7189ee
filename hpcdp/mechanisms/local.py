"""Local mechanisms: randomised response on any number of values, and RAPPOR."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import fraction, integer, positive, refusal
from hpcdp.mechanisms._batches import blocks
from hpcdp.mechanisms.additive import one_or_many

Ints = NDArray[np.int64]


@one_or_many
def randomized_response(
    databases: NDArray[Any], many: bool, size: int, rng: np.random.Generator, *, epsilon: float, values: int = 2
) -> Ints:
    """Draw each row's answer: the row with probability e^epsilon / (e^epsilon + values - 1), else one of the others.

    Warner 1965 for two values; k-ary: Kairouz, Oh and Viswanath 2016. The claim holds, and is attained: epsilon-DP for
    every row (local), so for an edit of one row.

    Args:
        database: integers from 0 to values - 1, shape (rows,), at least one row; each is answered independently.
        values: how many different values a row may have, >= 2.

    Returns int64 of shape (size,) for one row, else (size, rows).
    """
    one_each = response_rows(databases, many, values)
    rows = np.broadcast_to(one_each, (size, one_each.shape[1]))
    keep, out = 1.0 / (1.0 + (values - 1) * math.exp(-positive("epsilon", epsilon))), np.empty(rows.shape, np.int64)
    for block in blocks(*rows.shape):
        _answer(rows[block], keep, values - 1, rng, out[block])
    return out[:, 0] if rows.shape[1] == 1 else out


def rappor(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    hashes: int = 4,
    bits: int = 20,
    f: float = 0.75,
    p: float = 0.45,
    q: float = 0.55,
    one_time: bool = False,
) -> NDArray[np.bool_]:
    """Draw RAPPOR reports of one integer: its Bloom filter with every bit answered at random.

    Erlingsson, Pihur and Korolova 2014; the defaults are those of Bichsel et al. 2021, whose one-time variant has
    f = 0.95. Every output is the first report of a client of its own: the permanent answer is drawn anew. The claims
    hold for an edit of the value: one_time has level 2 · hashes · ln((1 - f/2) / (f/2)) (Theorem 1), a report
    hashes · ln(q* (1 - p*) / (p* (1 - q*))) for q > p (Theorem 2), with q*, p* of `rappor_probabilities`. A pair attains them
    when its filters share no bit and each has `hashes` bits; with fewer differing bits its level is smaller.

    Args:
        database: one integer, any shape with one element.
        hashes: bits that a value sets in the filter (fewer where they collide), >= 1.
        bits: length of the filter, >= 1.
        f: a bit of the permanent answer is a fair coin with this probability, from 0 to 1.
        p: a report's bit is 1 with this probability where the permanent one is 0, from 0 to 1; not with one_time.
        q: the same where it is 1.
        one_time: whether the permanent answer itself is the report.

    Returns bool of shape (size, bits), or (size,) for one bit.
    """
    zero, one = rappor_probabilities(f=f, p=p, q=q, one_time=one_time)
    chance = np.where(bloom_bits(one_integer(database), hashes, bits), one, zero)
    out = np.empty((size, chance.size), np.bool_)
    for block in blocks(size, chance.size):
        part = out[block]
        np.less(rng.random(part.shape), chance, out=part)
    return out[:, 0] if chance.size == 1 else out


def rappor_probabilities(*, f: float, p: float, q: float, one_time: bool = False) -> tuple[float, float]:
    """Return (p*, q*) that a reported bit is 1, where the filter's bit is 0 and 1 (Erlingsson et al. 2014, Lemma 1)."""
    if not isinstance(one_time, bool):
        raise refusal("one_time", one_time, "true or false")
    fair, low, high = fraction("f", f), fraction("p", p), fraction("q", q)
    if one_time:
        return 0.5 * fair, 1.0 - 0.5 * fair
    coin = 0.5 * fair * (low + high)
    return coin + (1.0 - fair) * low, coin + (1.0 - fair) * high


def one_integer(database: NDArray[Any]) -> int:
    """Return the one integer of a database; ValueError where it holds anything else."""
    index = np.asarray(database)
    if index.size != 1 or index.dtype.kind not in "biuf" or not float(index.item()).is_integer():
        raise refusal("database", database, "one integer")
    return int(index.item())


def bloom_bits(value: int, hashes: int, bits: int) -> NDArray[np.bool_]:
    """Return the Bloom filter of an integer, bool of shape (bits,): bit BLAKE2b(number of the hash, value) mod bits each."""
    out = np.zeros(integer("bits", bits, 1), np.bool_)
    for number in range(integer("hashes", hashes, 1)):
        digest = hashlib.blake2b(f"{number} {int(value)}".encode(), digest_size=8).digest()
        out[int.from_bytes(digest, "little") % out.size] = True
    return out


def _answer(rows: Ints, keep: float, others: int, rng: np.random.Generator, out: Ints) -> None:
    """Answers to rows (size, d) into `out`; one uniform decides whether to keep, and which other value if not."""
    uniforms = rng.random(rows.shape)
    uniforms -= keep
    uniforms *= others / max(1.0 - keep, np.finfo(np.float64).eps)
    np.floor(uniforms, out=uniforms)
    np.clip(uniforms, -1.0, others - 1.0, out=uniforms)  # -1: kept; rounding may reach `others`
    np.add(rows, uniforms.astype(np.int64), out=out)
    out += 1
    np.remainder(out, others + 1, out=out)


def response_rows(databases: NDArray[Any], many: bool, values: int) -> Ints:
    """Return databases as int64 (size, rows), one as (1, rows); ValueError unless they hold 0 to values - 1, in rows."""
    most, databases = integer("values", values, 2) - 1, np.asarray(databases)
    if databases.ndim == 1 + many and databases.size and databases.dtype.kind in "biuf":
        whole = databases.astype(np.int64)
        if (whole == databases).all() and whole.min() >= 0 and whole.max() <= most:
            return whole if many else whole[None]
    raise refusal("database", databases, f"integers from 0 to {most} of shape (rows,), at least one row")
