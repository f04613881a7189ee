"""A library's mechanism measured by hpcdp, and what it claims."""

from pathlib import Path
from typing import Any

import numpy as np

from hpcdp import run
from hpcdp.results.result import Result
from hpcdp.results.shown import VIOLATION
from hpcdp.results.verdict import careful_error, verify
from hpcdp.study.claims import parse_claim
from hpcdp.study.file import Study

EPSILONS = [0.0, 0.5, 1.0, 1.5]
CONFIDENCE = 1 - 1e-6  # nobody can seed OpenDP: at 95 % a correct library would fail one test in twenty
REGRET = 0.01  # what the classifier may cost at these sizes


def measure(
    mechanism: dict[str, Any],
    pair: tuple[list[Any], list[Any]],
    folder: Path,
    **estimate: Any,
) -> Result:
    """The spectrum of a pair at EPSILONS, estimated and certified."""
    sizes = {"train": 10_000, "test": 20_000, "chunk": 5000}
    study = Study.from_dict(
        {
            "study": {"name": "library", "seed": 20240520},
            "mechanism": mechanism,
            "pairs": {"given": [{"d": pair[0], "d_prime": pair[1]}]},
            "estimate": {"epsilons": EPSILONS, "confidence": CONFIDENCE, **sizes, **estimate},
        },
        folder,
    )
    return run(study, folder / f"{len(list(folder.iterdir()))}.zarr", workers=0)


def is_violated(claim: str, result: Result) -> bool:
    """Whether a certified bound lies above the claim, as `hpcdp verify` says."""
    return verify(result, parse_claim(claim, Path())).verdict == VIOLATION


def is_kept(claim: str, result: Result, is_exact: bool) -> bool:
    """Whether the estimates are no larger than the claim, or, of an exact curve, agree with it; up to 5 standard errors."""
    allowed = parse_claim(claim, Path()).delta(EPSILONS)
    noise = 5.0 * np.max(careful_error(result), axis=(0, 1))
    delta = np.array([row["delta"] for row in result.spectrum()])
    return bool((delta <= allowed + noise).all() and (not is_exact or (delta >= allowed - noise - REGRET).all()))
