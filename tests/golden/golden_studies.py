"""The golden studies: each way of estimating, kind of output, kind of pair and thing asked for, as small as it can be."""

from __future__ import annotations

from typing import Any

APART = [{"d": [0.0], "d_prime": [1.0]}]
TWO = [{"d": [0.0, 1.0], "d_prime": [1.0, 1.0]}]
ROWS = {"databases": [[0.0, 1.0, 3.0]], "rows": "all"}
DISTRIBUTION = {"call": "mechanisms:people", "parameters": {"rows": 6}, "index": [0], "values": [0, 1]}
SMALL = {"train": 1500, "test": 3000, "chunk": 1000, "epsilons": [0.0, 0.5, 1.0], "keep": "none"}
TAPE = {"tape": True, "train": 4096, "test": 32_768, "chunk": 8192, "epsilons": [0.0, 0.5], "keep": "none"}
TABLE = {"outcomes": [0, 1, 2], "table": [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]]}
SEEDS = (1, 2)


def study(
    call: Any, pairs: dict[str, Any], estimate: dict[str, Any], parameters: Any = None, **more: Any
) -> dict[str, Any]:
    """A study but for its name and seed. more: further keys of [study] and [mechanism], and sections."""
    mechanism = {"call": call} | ({"parameters": parameters} if parameters else {})
    if isinstance(call, str) and ":" in call:
        mechanism["isolated"] = False
    head = {key: more.pop(key) for key in ("stream", "claim") if key in more}
    return {"study": head, "mechanism": mechanism, "pairs": pairs, "estimate": estimate} | more


def builtin(call: str, given: dict[str, Any], **estimate: Any) -> dict[str, Any]:
    """A built-in mechanism on one pair of numbers."""
    return study(call, {"given": APART}, SMALL | estimate, given)


def own(name: str, **estimate: Any) -> dict[str, Any]:
    """A mechanism of `mechanisms` on one pair of numbers."""
    return study(f"mechanisms:{name}", {"given": APART}, SMALL | estimate)


STUDIES: dict[str, dict[str, Any]] = {
    # sample-split counting: losses
    "knn": builtin("laplace", {"epsilon": 1.0}, loss="knn", etas=[0.5, 1.0, 2.0]),
    "knn-k": builtin("gaussian", {"sigma": 1.0}, loss="knn", parameters={"k": 25}),
    "kde": builtin("gaussian", {"sigma": 1.0}, loss="kde", etas=[0.5, 1.0, 2.0]),
    "smooth": builtin("gaussian", {"sigma": 1.0}, loss="smooth", renyi=[1.0, 2.0]),
    "smooth-columns": own("two_columns", loss="smooth"),
    "learned": own("two_columns", loss="learned", parameters={"classifier": "logistic"}),
    "network": own("two_columns", loss="learned", parameters={"options": {"max_iter": 5}}),
    "frequency": study("pmf", {"given": [{"d": [0], "d_prime": [1]}]}, SMALL | {"loss": "frequency", "etas": [0.5, 2.0]}, TABLE),
    "auto": builtin("laplace", {"epsilon": 1.0}, train=4000),
    "histogram": own("clamped", loss="histogram", parameters={"range": [0.0, 1.0], "lipschitz": 6.0, "bins": 10}),
    "histogram-domain": study(
        "truncated",
        {"domain": {"lower": 0.0, "upper": 1.0, "points": 4, "lipschitz": 3.0}},
        {"loss": "histogram", "parameters": {"range": [0.0, 1.0], "lipschitz": 3.0}, "train": 1500, "test": 3000, "keep": "none"},
        {"scale": 1.0},
    ),
    # kinds of outputs
    "integers": own("rounded"),
    "bytes": own("text", loss="frequency"),
    "mixed": own("mixed"),
    "index-and-number": study("mechanisms:indexed", {"given": TWO}, SMALL | {"loss": "knn"}),
    "columns": study("gaussian", {"given": [{"d": [0.0, 0.0], "d_prime": [1.0, 0.5]}]}, SMALL | {"loss": "knn"}, {"sigma": 1.0}),
    "randomized-response": study("randomized_response", {"given": [{"d": [0, 1], "d_prime": [1, 1]}]}, SMALL, {"epsilon": 1.0}),
    "sparse-vector": study(
        "sparse_vector", {"given": [{"d": [0.0] * 3, "d_prime": [1.0] * 3}]}, SMALL, {"variant": 1, "epsilon": 1.0}
    ),
    # kinds of pairs
    "relative-remove": study("mechanisms:noisy_sum", {"relative": ROWS}, SMALL | {"loss": "knn"}, claim="laplace(epsilon=1)"),
    "relative-edit": study(
        "bounded_mean",
        {"relative": ROWS | {"relation": "edit", "values": [0.0, 4.0]}},
        SMALL | {"loss": "smooth", "keep": "all"},
        {"lower": 0.0, "upper": 4.0, "count": 3, "epsilon": 1.0},
    ),
    "distributional": study("mechanisms:total", {"distributional": DISTRIBUTION}, SMALL),
    "distributional-count": study("count", {"distributional": DISTRIBUTION | {"exchangeable": True, "index": "all"}}, SMALL),
    "called-pairs": study("mechanisms:noisy_sum", {"given": {"call": "mechanisms:pairs"}}, SMALL | {"loss": "smooth"}),
    # what is asked for
    "certify": builtin("laplace", {"epsilon": 1.0}, loss="kde", certify=[0.5]),
    "numpy-stream": study("laplace", {"given": APART}, SMALL | {"loss": "knn"}, {"epsilon": 1.0}, stream="numpy"),
    "dependent": own("together", loss="knn", train=4000, test=16_000, chunk=4000, etas=[0.5, 1.0, 2.0]),
    "pure": study("laplace", {"given": APART}, {"train": 2000, "test": 4000, "chunk": 1000, "keep": "none"}, {"epsilon": 1.0},
                  pure={"within": [[-1.0, 2.0]], "at": [0.0, 0.5]}),
    "pure-all": study("randomized_response", {"relative": {"databases": [[0, 1]], "relation": "edit"}},
                      {"loss": "frequency", "train": 2000, "test": 4000, "chunk": 1000, "epsilons": [0.5]}, {"epsilon": 1.0},
                      pure={"test": "all"}),
    "refine": builtin("gaussian", {"sigma": 1.0}, loss="smooth", refine=6000, validation=4000),
    "race": builtin("laplace", {"epsilon": 1.0}, loss=["smooth", "kde", "knn"], refine=6000, validation=4000),
    "target-epsilon": study("gaussian", {"given": APART}, {
        "loss": "smooth", "train": 2000, "chunk": 10_000, "epsilons": [0.0, 1.0, 2.0], "keep": "none",
        "target": {"epsilon": 2.0, "relative_error": 0.2, "most": 200_000}}, {"sigma": 1.0}),
    "target-delta": study("gaussian", {"given": APART}, {
        "loss": "smooth", "train": 2000, "chunk": 10_000, "epsilons": [0.0, 1.0, 2.0], "keep": "none",
        "target": {"delta": 1e-2, "relative_error": 0.2, "most": 200_000}}, {"sigma": 1.0}),
    "reuse": builtin("laplace", {"epsilon": 1.0}, loss="knn", reuse=True, keep="all"),
    "literal": builtin("laplace", {"epsilon": 1.0}, loss="literal-knn", etas=[0.5, 2.0]),
    "tape": study("mechanisms:one_sum", {"given": APART}, TAPE, stream="philox"),
    "tape-loop": study("mechanisms:steps", {"given": APART}, TAPE, stream="philox"),
    "tape-rows": study("mechanisms:noisy_sum", {"given": APART}, TAPE | {"certify": [0.5]}, stream="philox"),
    "tape-target": study("gaussian", {"given": APART}, {
        "tape": True, "train": 4096, "chunk": 8192, "epsilons": [0.0, 1.0, 2.0], "keep": "none", "certify": [1.0],
        "target": {"epsilon": 2.0, "relative_error": 0.1, "most": 100_000}}, {"sigma": 1.0}, stream="philox"),
}  # fmt: skip
"""By name; each is run with both of `SEEDS`."""
