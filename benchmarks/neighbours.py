"""kNN votes of vectors: scikit-learn's KNeighborsClassifier against hpcdp's knn, one thread each, with equal votes.

Seconds are of the processor, because both use one thread and a machine may be shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.knn.knn import Knn, VotesModel
from hpcdp.losses.parameters import choose_k
from hpcdp.losses.protocol import Side

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

THRESHOLDS = np.linspace(-2.0, 2.0, 41)
BLOCK = 1 << 12  # outputs whose neighbours scikit-learn lists at a time

# law, columns, log₂ of the test outputs; the first two are the main figures, the others are samples of the same work
FULL = (
    ("gaussian", 2, 18),
    ("gaussian", 3, 18),
    ("laplace", 2, 14),
    ("laplace", 3, 14),
    ("uniform", 2, 14),
    ("uniform", 3, 14),
    ("gaussian", 5, 12),
    ("laplace", 5, 12),
    ("gaussian", 10, 9),
    ("laplace", 10, 9),
)
SMALL = (("gaussian", 2, 11), ("laplace", 3, 11), ("uniform", 5, 9))


def draw(law: str, size: int, columns: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """`size` outputs of both sides together, half each: vectors of independent noise, moved in the first column."""
    noise: dict[str, Callable[..., Floats]] = {"gaussian": rng.normal, "laplace": rng.laplace, "uniform": rng.random}
    one, other = noise[law](size=(2, size // 2, columns))
    other[:, 0] += 0.1 if law == "uniform" else 1.0
    return one, other


def ask_scikit(p: Floats, q: Floats, x: Floats, k: int) -> tuple[Ints, float, float]:
    """Votes of q's side, and seconds to fit and to vote: the neighbours' labels added up, faster than predict_proba."""
    from sklearn.neighbors import KNeighborsClassifier

    labels = np.repeat([0, 1], [p.shape[0], q.shape[0]])
    begin = time.process_time()
    model = KNeighborsClassifier(n_neighbors=k, n_jobs=1).fit(np.concatenate([p, q]), labels)
    fitted = time.process_time()
    votes = [
        labels[model.kneighbors(x[start : start + BLOCK], return_distance=False)].sum(axis=1)
        for start in range(0, x.shape[0], BLOCK)
    ]
    return np.concatenate(votes), fitted - begin, time.process_time() - fitted


def fit_hpcdp(p: Floats, q: Floats) -> VotesModel:
    """The model of `knn`."""
    model = Knn().fit(Side(p, p.shape[0]), Side(q, q.shape[0]))
    assert isinstance(model, VotesModel)
    return model


def ask_hpcdp(p: Floats, q: Floats, x: Floats) -> tuple[VotesModel, float, float]:
    """The model, and seconds to fit and to count."""
    begin = time.process_time()
    model = fit_hpcdp(p, q)
    fitted = time.process_time()
    model.counter(THRESHOLDS).count(x)
    return model, fitted - begin, time.process_time() - fitted


def main(small: bool = False) -> dict[tuple[str, int], float]:
    """Print a table; returns how many times faster hpcdp is, fit included, by law and columns."""
    from threadpoolctl import threadpool_limits

    training = 1 << (13 if small else 18)
    k = choose_k("sqrt", training)
    print(f"neighbours: 2^{training.bit_length() - 1} training points, k = {k}; seconds of one thread; equal votes")
    print(
        f"{'law':9} {'columns':>7} {'outputs':>7} | {'scikit-learn fit':>16} {'votes':>9} {'µs each':>8} |"
        f" {'hpcdp fit':>9} {'count':>8} {'µs each':>8} | times faster: {'in all':>6} {'an output':>9}"
    )
    ratios = {}
    with threadpool_limits(1):
        for law, columns, power in SMALL if small else FULL:
            rng = np.random.default_rng([columns, power])
            ask_hpcdp(*draw(law, 1 << 10, columns, rng), draw(law, 64, columns, rng)[0])  # warm: kernels compiled
            ask_scikit(*draw(law, 1 << 10, columns, rng), draw(law, 64, columns, rng)[0], 5)
            p, q = draw(law, training, columns, rng)
            x = np.concatenate(draw(law, 1 << power, columns, rng))
            model, fit, count = ask_hpcdp(p, q, x)
            wanted, scikit_fit, scikit_vote = ask_scikit(p, q, x, k)
            np.testing.assert_array_equal(np.column_stack(model.source.votes(x)), np.column_stack([k - wanted, wanted]))
            ratios[law, columns] = (scikit_fit + scikit_vote) / (fit + count)
            print(
                f"{law:9} {columns:7} {f'2^{power}':>7} | {scikit_fit:16.2f} {scikit_vote:9.2f}"
                f" {scikit_vote / x.shape[0] * 1e6:8.1f} | {fit:9.3f} {count:8.3f} {count / x.shape[0] * 1e6:8.2f} |"
                f" {'':13} {ratios[law, columns]:6.1f} {scikit_vote / count:9.1f}",
                flush=True,
            )
    return ratios


if __name__ == "__main__":
    main()
