"""Functions and DataFrames as objects, and studies of them."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import hpcdp

SMALL: dict[str, Any] = {"train": 1000, "test": 1500, "chunk": 500, "epsilons": [0.0, 0.5]}
SECRET = "Zacharias-Q"  # a text that is nowhere else

FRAME = pd.DataFrame(
    {
        "age": np.array([30, 40, -50], np.int32),
        "big": np.array([2**63 + 5, 1, 2], np.uint64),
        "name": [SECRET, "bob", None],
        "mixed": pd.Series([1, "1", True], dtype=object),
        "when": pd.to_datetime(["2020-01-01", "2021-02-03", None]),
        "zone": pd.to_datetime(["2020-01-01", "2021-02-03", None]).tz_localize("Europe/Berlin"),
        "group": pd.Categorical(["x", "y", "x"], categories=["y", "x", "unused"], ordered=True),
        "count": pd.array([1, None, 3], dtype="Int64"),
        "weight": np.array([1.5, np.nan, -0.0], np.float32),
        "member": [True, False, True],
    },
    index=pd.Index(["r1", "r2", "r3"], name="who"),
)


def study_of(function: Any, folder: Path | None = None, **mechanism: Any) -> hpcdp.Study:
    """A small study of a function."""
    return hpcdp.Study.from_dict(
        {
            "study": {"name": "s", "seed": 7},
            "mechanism": {"call": function, **mechanism},
            "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
            "estimate": SMALL,
        },
        folder,
    )


def locked() -> Callable[..., Any]:
    """A function that no other process can be given."""
    lock = threading.Lock()

    def held(database: Any, rng: np.random.Generator) -> float:
        with lock:
            return float(database.sum() + rng.laplace())

    return held
