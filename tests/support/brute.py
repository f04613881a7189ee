"""Plain NumPy twins of the vote rules, one query at a time, and the deltas that counts give."""

import numpy as np

from hpcdp.losses.counts import above, below


def distances(rows, query, metric):
    """Distances of rows (size, d) to one query (d,), columns summed in order."""
    parts = [np.abs(rows[:, c] - query[c]) for c in range(rows.shape[1])]
    if metric == "hamming":
        return sum(part > 0 for part in parts)
    if metric == "chebyshev":
        return np.maximum.reduce(parts)
    if metric == "manhattan":
        return sum(parts)
    return parts[0] if len(parts) == 1 else np.sqrt(sum(part * part for part in parts))


def votes(a, b, queries, k, metric="euclidean", common=None):
    """Votes (queries, 2) of closed k-balls with atoms, rows that at least `common` (k) training points hold."""
    a, b, queries = (x.reshape(x.shape[0], -1).astype(np.float64) for x in (a, b, queries))
    rows = np.concatenate([a, b])
    label = np.repeat([0, 1], [a.shape[0], b.shape[0]])
    equal = np.array([(rows == row).all(axis=1).sum() for row in rows])
    atom = equal >= (common or k)
    others, other_label = rows[~atom], label[~atom]
    out = np.zeros((queries.shape[0], 2), np.int64)
    for i, query in enumerate(queries):
        held = atom & (rows == query).all(axis=1)
        if held.any():
            out[i] = np.bincount(label[held], minlength=2)
        elif others.size:
            distance = distances(others, query, metric)
            radius = np.sort(distance)[min(k, distance.size) - 1]
            out[i] = np.bincount(other_label[distance <= radius], minlength=2)
    return out


def deltas(histogram_p, histogram_q, thresholds, draws, epsilon):
    """(estimate, its standard error) of delta(epsilon), forward and reverse, from counts of `draws` outputs per database."""
    out = []
    for first, second, tail, threshold in (
        (histogram_p, histogram_q, above, epsilon),
        (histogram_q, histogram_p, below, -epsilon),
    ):
        j = int(np.searchsorted(thresholds, threshold))
        assert thresholds[j] == threshold
        x, y = tail(first)[j] / draws, tail(second)[j] / draws
        error = np.sqrt((x * (1 - x) + np.exp(2 * epsilon) * y * (1 - y)) / draws)
        out.append((max(0.0, x - np.exp(epsilon) * y), error))
    return out


def exact_deltas(p, q, epsilon):
    """delta(epsilon) forward and reverse of two probability vectors."""
    t = np.exp(epsilon)
    return float(np.maximum(0.0, p - t * q).sum()), float(np.maximum(0.0, q - t * p).sum())


def laplace_delta(shift, epsilon):
    """delta(epsilon), any real epsilon, of unit Laplace noise on two numbers that are `shift` apart."""
    if epsilon >= shift:
        return 0.0
    return 1.0 - np.exp((epsilon - shift) / 2) if epsilon > -shift else 1.0 - np.exp(epsilon)
