"""Mechanisms: the built-ins by name, any callable by import path, programs, and stored samples.

A mechanism callable is `mechanism(database, size, rng, **parameters)`, returning (size,) or (size, d); without `size` in
its signature it returns one output a call. Where outputs of many databases can be drawn at once, the function has an
attribute `each`: `each(databases, rng, **parameters)` takes databases (size, rows) or (size, rows, columns) and returns
one output of each, independently; distributional pairs use it. To add a built-in, put its function in a file of its
family and name it in BUILTINS. Built-ins draw `size` outputs with randomness of `rng` alone, and raise ValueError where a
parameter or the database is refused; their `epsilon`, above 0, is the nominal privacy level.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

BUILTINS = {
    "laplace": "hpcdp.mechanisms.additive:laplace",
    "gaussian": "hpcdp.mechanisms.additive:gaussian",
    "bounded_mean": "hpcdp.mechanisms.additive:bounded_mean",
    "bounded_sum": "hpcdp.mechanisms.additive:bounded_sum",
    "pmf": "hpcdp.mechanisms.table:pmf",
    "exponential": "hpcdp.mechanisms.exponential:exponential",
    "exponential_real": "hpcdp.mechanisms.exponential:exponential_real",
    "truncated": "hpcdp.mechanisms.exponential:truncated",
    "noisy_max": "hpcdp.mechanisms.exponential:noisy_max",
    "sparse_vector": "hpcdp.mechanisms.sparse_vector:sparse_vector",
    "noisy_histogram": "hpcdp.mechanisms.histogram:noisy_histogram",
    "histogram": "hpcdp.mechanisms.histogram:histogram",
    "count": "hpcdp.mechanisms.histogram:count",
    "randomized_response": "hpcdp.mechanisms.local:randomized_response",
    "rappor": "hpcdp.mechanisms.local:rappor",
    "noisy_sum": "hpcdp.mechanisms.additive:noisy_sum",
    "toy_dpsgd": "hpcdp.mechanisms.toy_dpsgd:toy_dpsgd",
    "subsampled": "hpcdp.mechanisms.subsampled:subsampled",
}
"""Names of the built-in mechanisms that are functions, and where they are."""

CALLABLES = {"exponential": ("utility",), "subsampled": ("mechanism",)}
"""Parameters of built-ins that may name a callable of the user's."""

STORED, SCORES = "stored", "scores"
READERS = (STORED, SCORES)
"""The built-ins that read samples drawn elsewhere: files of samples, and files of one trained model each."""


def load_builtin(name: str) -> Callable[..., Any]:
    """The function behind a built-in's name."""
    module, _, function = BUILTINS[name].partition(":")
    return getattr(importlib.import_module(module), function)


_OTHERS = (
    (f"{STORED}(files)", "Samples drawn elsewhere: one file (.npy, .csv, .parquet, Zarr array) per database."),
    (
        f"{SCORES}(files, score, parameters = {{}})",
        "Models trained elsewhere: one file each, of which the callable `score` makes a number or a vector.",
    ),
    ('"package.module:callable"', "mechanism(database, size, rng, **parameters) -> (size,) or (size, d)"),
    ('{ command = ["program", "argument", …] }', "A program in an environment of its own (docs/black-boxes.md)"),
)


def describe_builtins() -> str:
    """Every built-in with its parameters and the first line of its documentation."""
    calls = []
    for name in BUILTINS:
        function = load_builtin(name)
        signature = inspect.signature(function)
        own = [str(p).split(":")[0] + (f" = {p.default}" if p.default is not p.empty else "")
               for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]  # fmt: skip
        calls.append((f"{name}({', '.join(own)})", (inspect.getdoc(function) or "").splitlines()[0]))
    return "\n".join(f"{call}\n    {words}" for call, words in (*calls, *_OTHERS))
