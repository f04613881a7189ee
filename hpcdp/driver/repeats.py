"""A study under several seeds and sizes: how far δ̂ really is from the truth, as in Figures 4c and 4d of Lu et al. (2024)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.driver.driver import run
from hpcdp.errors import StudyError
from hpcdp.mechanisms import READERS
from hpcdp.notions.accuracy import bayes_error
from hpcdp.results.comparison import exact_of
from hpcdp.study.file import Study

if TYPE_CHECKING:
    from distributed import Client

    from hpcdp.results.result import Result

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Repeats:
    """Spectra of one study under several seeds and sizes.

    Args:
        name: of the study.
        sizes: training and test samples per database of each size.
        seeds: at least two.
        epsilon: levels, shape (k,).
        estimates: the largest δ̂, shape (sizes, seeds, k).
        lower: the largest certified bound, same shape.
        exact: exact δ, shape (k,), or None where it is not known.
        reuse: whether every sample taught and tested.
    """

    name: str
    sizes: tuple[tuple[int, int], ...]
    seeds: tuple[int, ...]
    epsilon: Floats
    estimates: Floats
    lower: Floats
    exact: Floats | None
    reuse: bool = False

    @property
    def error(self) -> Floats:
        """Root mean square error over seeds, shape (sizes, k): about the exact value, else about the mean (n − 1)."""
        if self.exact is None:
            return np.asarray(self.estimates.std(axis=1, ddof=1))
        return np.asarray(np.sqrt(((self.estimates - self.exact) ** 2).mean(axis=1)))

    @property
    def bias(self) -> Floats:
        """Mean over seeds minus the exact value, shape (sizes, k); NaN where that is not known."""
        truth = np.full(self.epsilon.size, np.nan) if self.exact is None else self.exact
        return np.asarray(self.estimates.mean(axis=1) - truth)

    @property
    def expected(self) -> Floats:
        """Standard error of Figure 1 with the Bayes classifier, shape (sizes, k); asymptotic. At the mean without exact δ.

        hpcdp counts both sides one by one, which has less variance: its own error is at most this, up to the regret.
        """
        delta = self.estimates.mean(axis=1) if self.exact is None else np.broadcast_to(self.exact, self.error.shape)
        tests = 2 * np.array([[train + test if self.reuse else test] for train, test in self.sizes])
        return bayes_error(self.epsilon, delta, tests)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each size and ε: train, test, epsilon, mean, exact, error, expected; unknown as None."""
        return [
            {
                "train": train,
                "test": test,
                "epsilon": float(epsilon),
                "mean": float(self.estimates[i, :, k].mean()),
                "exact": None if self.exact is None else float(self.exact[k]),
                "error": float(self.error[i, k]),
                "expected": float(self.expected[i, k]),
            }
            for i, (train, test) in enumerate(self.sizes)
            for k, epsilon in enumerate(self.epsilon)
        ]

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the error against test samples; returns the matplotlib figure, and writes it when a path is given."""
        from hpcdp.report.plots import draw_errors

        return draw_errors(self, path)


def repeat(
    study: Study | str | Path,
    seeds: Sequence[int],
    sizes: Sequence[int | tuple[int, int]],
    folder: str | Path | None = None,
    *,
    client: Client | None = None,
    workers: int | None = None,
) -> Repeats:
    """Run a study once for each seed and size, each into a store of its own, and collect the spectra.

    Args:
        study: the study or its file; its seed, train and test are replaced.
        seeds: at least two, distinct: the runs are independent.
        sizes: training and test samples per database, or one number for both.
        folder: where the stores stay, to go on with or look at; by default they are removed.
        client: your own Dask client; by default, worker processes of this machine.
        workers: how many of these.

    Raises:
        StudyError: the study is wrong, fewer than two seeds, no size, or stored samples, which are no new draws.
        RunFailed: a run ended without all its cells.
    """
    parsed = study if isinstance(study, Study) else Study.from_toml(study)
    seeds = [int(seed) if isinstance(seed, np.integer) else seed for seed in seeds]
    pairs = tuple(_size(size) for size in sizes)
    if len(set(seeds)) < max(2, len(seeds)):
        raise StudyError(f"seeds: {list(seeds)} was given; accepted: two or more that differ")
    if not pairs:
        raise StudyError("sizes: none was given; accepted: one or more")
    if not parsed.counts_levels:
        raise StudyError(
            "repeat: collects spectra, which a study with [at_risk] has not, and one with [pure] only with all pairs tested "
            "and epsilons"
        )
    if parsed.estimate.reuse == "auto":
        raise StudyError('estimate.reuse: runs may choose differently; given: "auto"; accepted: true, false')
    if parsed.mechanism.call in READERS:
        raise StudyError(
            "mechanism.call: stored samples are the same under every seed; accepted: a mechanism that draws"
        )
    with ExitStack() as ending:
        own = ending.enter_context(TemporaryDirectory(prefix="hpcdp-")) if folder is None else folder
        place = Path(own).absolute()
        how = {"client": client, "workers": workers}
        results = [[_run_one(parsed, seed, size, place, **how) for seed in seeds] for size in pairs]
        estimates, lower = (
            np.array([[result[f"spectrum_{name}"] for result in row] for row in results]) for name in ("delta", "lower")
        )
        first = results[0][0]
        exact = exact_of(first, first["epsilon"])
    return Repeats(parsed.name, pairs, tuple(seeds), first["epsilon"], estimates, lower, exact, first.method.pools)


def _size(size: int | tuple[int, int]) -> tuple[int, int]:
    """Training and test samples of a size."""
    try:
        if isinstance(size, int | np.integer):
            return int(size), int(size)
        train, test = (operator.index(number) for number in size)
    except (TypeError, ValueError):
        raise StudyError(
            f"sizes: {size!r} was given; accepted: a whole number, or two, of training and of test samples"
        ) from None
    return train, test


def _run_one(study: Study, seed: int, size: tuple[int, int], folder: Path, **how: Any) -> Result:
    body = study.to_dict()
    body["study"]["seed"] = seed
    body["mechanism"]["call"] = study.mechanism.function or study.mechanism.call
    train, test = body["estimate"]["train"], body["estimate"]["test"] = size
    return run(Study.from_dict(body, study.folder), folder / f"{study.name}-{train}-{test}-{seed}.zarr", **how)
