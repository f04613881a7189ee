"""The study that the benchmarks run: Laplace noise, one pair, 21 values of ε."""

from __future__ import annotations

from hpcdp.study.file import Study


def laplace_study(name: str, train: int, test: int, keep: str, chunk: int = 1 << 18) -> Study:
    """Laplace ε₀ = 1 on 0 against 1 with samples per database and stage."""
    return Study.from_dict(
        {
            "study": {"name": name, "seed": 20240520},
            "mechanism": {"call": "laplace", "parameters": {"epsilon": 1.0}},
            "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
            "estimate": {
                "loss": "knn",
                "train": train,
                "test": test,
                "keep": keep,
                "chunk": min(chunk, train, test),
                "epsilons": {"start": 0.0, "stop": 2.0, "count": 21},
            },
        }
    )
