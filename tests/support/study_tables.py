"""Studies of every kind as tables that the models accept, their places, and the texts of studies that are shipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from followed import PAGES, ROOT, read_blocks

Path_ = tuple[str | int, ...]


def shipped() -> Iterator[Any]:
    """Every whole study of the documentation, the workflows, and `hpcdp init`."""
    for page in PAGES:
        for number, block in enumerate(read_blocks(page)):
            if block.language == "toml" and "[study]" in block.text:
                yield pytest.param(block.text, id=f"{page}-{number}")
    for folder in ("workflows", "hpcdp/cli/templates"):
        for path in sorted((ROOT / folder).rglob("*.toml")):
            if "[study]" in (text := path.read_text(encoding="utf-8")):
                yield pytest.param(text, id=str(path.relative_to(ROOT)))


HEAD: dict[str, Any] = {"name": "s", "seed": 1, "claim": "dp(epsilon=1)"}
LAPLACE: dict[str, Any] = {"call": "laplace", "parameters": {"epsilon": 1.0}}
GIVEN: dict[str, Any] = {"given": [{"d": [0.0], "d_prime": [1.0]}]}
SIZES: dict[str, Any] = {"train": 1000, "test": 1000, "chunk": 500, "epsilons": [0.0, 1.0]}
STUDIES: dict[str, dict[str, Any]] = {
    "given": {
        "study": HEAD | {"stream": "numpy"},
        "mechanism": LAPLACE | {"reproducible": True, "isolated": True},
        "pairs": GIVEN,
        "estimate": SIZES
        | {"loss": "knn", "parameters": {"k": "sqrt", "metric": "euclidean"}, "keep": "all", "confidence": 0.9}
        | {"etas": [0.5, 1.0], "renyi": [1.0, 2.0], "certify": [1.0]},
    },
    "relative": {
        "study": HEAD,
        "mechanism": {"call": "own:f", "parameters": {}, "timeout": "90s"},
        "pairs": {"relative": {"databases": [[1, 2]], "rows": [0, 1], "relation": "edit", "values": [0, 1]}},
        "estimate": {"epsilons": {"start": 0.0, "stop": 1.0, "count": 3}, "loss": ["knn", "smooth"], "refine": 500}
        | {"validation": 500},
    },
    "program": {
        "study": HEAD,
        "mechanism": {"call": {"command": ["p", "q"], "timeout": 60, "start_timeout": 1.5}},
        "pairs": {"given": {"call": "own:pairs", "parameters": {"n": 1}}},
        "estimate": {"epsilons": [0.0], "time": "90 min"},
    },
    "distributional": {
        "study": HEAD,
        "mechanism": {"call": "own:f"},
        "pairs": {
            "distributional": [
                {"call": "own:g", "parameters": {}, "index": [0], "values": [0, 1], "exchangeable": True}
            ]
        },
        "estimate": SIZES | {"reuse": "auto"},
    },
    "target": {
        "study": HEAD,
        "mechanism": LAPLACE,
        "pairs": {"relative": {"file": "x.csv"}},
        "estimate": {"epsilons": [0.0, 1.0], "keep": "none", "loss": "smooth"}
        | {"target": {"epsilon": 1.0, "direction": "forward", "most": 10**6, "relative_error": 0.2}},
    },
    "tape": {
        "study": HEAD,
        "mechanism": {"call": "own:f", "impossible": "own:never"},
        "pairs": GIVEN,
        "estimate": {"epsilons": [0.0, 1.0], "tape": True},
    },
    "domain": {
        "study": HEAD,
        "mechanism": {"call": "own:f"},
        "pairs": {"domain": {"lower": 0.0, "upper": 1.0, "points": 4, "lipschitz": 2.0}},
        "estimate": {"loss": "histogram", "parameters": {"range": [0.0, 1.0], "lipschitz": 1.0, "bins": 8}},
    },
    "pure": {
        "study": HEAD,
        "mechanism": LAPLACE,
        "pairs": GIVEN,
        "estimate": {"train": 1000, "test": 1000, "chunk": 500, "loss": "kde", "parameters": {"floor": 1.0}},
        "pure": {"within": [[0.0, 1.0]], "floor": 0.01, "at": [0.5], "test": "all"},
    },
    "at_risk": {
        "study": {"name": "s", "seed": 1},
        "at_risk": {
            "query": "own:q",
            "population": {"call": "own:p", "parameters": {}},
            "rows": 5,
            "pairs": 1000,
            "scale": 1.0,
            "cover": [0.9],
            "confidence": 0.9,
            "chunk": 10,
        },
    },
}


def places(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every place of a study and what is there."""
    yield path, value
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield from places(inner, (*path, key))
