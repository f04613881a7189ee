"""Built-ins bound to a study's parameters, with the user's callables that these name, and any mechanism on a random batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import refusal
from hpcdp.errors import MechanismError, StudyError
from hpcdp.keys import digest_bytes
from hpcdp.mechanisms import BUILTINS, CALLABLES, load_builtin
from hpcdp.mechanisms._batches import Ints, check_batch, draw_places, enumerate_batches, find_runs
from hpcdp.mechanisms._callable import CallableMechanism, bind
from hpcdp.mechanisms.additive import one_or_many
from hpcdp.mechanisms.special import items_of
from hpcdp.mechanisms.user_code import import_callable, source_digest

_MOST_CODE = 1 << 62


def count_contents(places: Ints, rows: NDArray[Any]) -> tuple[Ints, Ints, Ints]:
    """Group batches that hold equal rows in the same order: one draw of each group, how many it has, all draws by group."""
    # places: (draws, width), numbers of rows, the number of all for none. A group's place follows from what its batches hold.
    distinct, label = np.unique(rows, axis=0, return_inverse=True)
    labels = np.append(label.ravel() + 1, 0)[places]
    codes, span, base = np.zeros(places.shape[0], np.int64), 1, distinct.shape[0] + 1
    for column in labels.T:
        if span * base > _MOST_CODE:  # exact, so not a hash: smaller numbers for the codes so far
            codes = np.unique(codes, return_inverse=True)[1]
            span = int(codes.max()) + 1
        codes, span = codes * base + column, span * base
    _, chosen, group, counts = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    return chosen, counts, np.argsort(group, kind="stable")


def join_outputs(parts: Sequence[tuple[Any, int]], order: NDArray[np.int64]) -> Any:
    """Outputs of calls for so many, each at its place: one array where all gave arrays of one kind and shape, or a list."""
    batches = [_outputs(raw, count) for raw, count in parts]
    if len(batches) == 1 and isinstance(batches[0], np.ndarray):
        joined = batches[0]
    elif batches and all(isinstance(part, np.ndarray) for part in batches) and _are_alike(batches):
        joined = np.concatenate(batches)
    else:
        out: list[Any] = [None] * order.size
        outputs = (output for part in batches for output in part)
        for place, output in zip(order.tolist(), outputs, strict=True):
            out[place] = output
        return out
    result = np.empty_like(joined)
    result[order] = joined
    return result


def _outputs(raw: Any, count: int) -> Any:
    """An array or a list of the outputs of one call."""
    items = items_of(raw)
    outputs = items if items is not None else raw if isinstance(raw, np.ma.MaskedArray) else np.asarray(raw)
    if isinstance(outputs, np.ndarray) and not outputs.ndim:
        raise MechanismError(
            f"the mechanism returned one {type(raw).__name__} when asked for {count} outputs of a batch"
        )
    if len(outputs) != count:
        raise MechanismError(f"the mechanism returned {len(outputs)} outputs when asked for {count} of a batch")
    return outputs


def _are_alike(arrays: Sequence[NDArray[Any]]) -> bool:
    """Whether the arrays of outputs become one array that holds what they hold."""
    kinds = {"number" if array.dtype.kind in "biuf" else array.dtype.kind for array in arrays}
    masked = any(isinstance(array, np.ma.MaskedArray) for array in arrays)
    return len(kinds) == 1 and len({array.shape[1:] for array in arrays}) == 1 and not masked


SUBSAMPLED = "subsampled"

_BLOCK = 1 << 21  # numbers of rows in the batches that are in memory at once; a block's draws depend on it


@one_or_many
def subsampled(
    databases: NDArray[Any],
    many: bool,
    size: int,
    rng: np.random.Generator,
    *,
    mechanism: str | Callable[..., Any],
    parameters: Mapping[str, Any] | None = None,
    batch: int | None = None,
    rate: float | None = None,
) -> Any:
    """Draw outputs of another mechanism, each on a random batch of the rows: `batch` of them, or each with chance `rate`.

    The batch is drawn anew for every output: `batch` rows without replacement, or every row by itself with probability
    `rate` (Poisson sampling). It keeps the order of the rows. Outputs on equal batches are drawn with one call. How
    sampling lowers the privacy level: Balle, Barthe and Gaboardi 2018.

    Args:
        database: shape (rows,) or (rows, columns); whatever the mechanism takes.
        mechanism: the name of another built-in that is a function, or "package.module:callable" or the callable itself.
        parameters: its keyword arguments.
        batch: rows of a batch, from 1 to the number of rows; exactly one of `batch` and `rate`.
        rate: the probability of each row, above 0 and at most 1; a batch may then have no rows, which the mechanism
            must take.

    Returns:
        what the mechanism returns: an array of shape (size,) or (size, d), or a list of `size` outputs.

    Raises:
        StudyError: the mechanism cannot be imported, or does not take these parameters.
        MechanismError: the mechanism raised something, or returned another number of outputs than was asked for.
    """
    inner = bind_inner(mechanism, parameters)
    rows = np.asarray(databases)
    if rows.ndim - many not in (1, 2):
        raise refusal("database", databases, "an array of shape (rows,) or (rows, columns)")
    check_batch(rows.shape[int(many)], batch, rate)
    if many:
        places, sizes = _draw_sorted(rows.shape[1], size, rng, batch, rate)
        return _draw_each(inner, rows, True, places, sizes, rng)
    starts, lengths = find_runs(rows)
    kinds = enumerate_batches(lengths, batch, rate)
    if kinds is None:
        return _draw_singly(inner, rows, size, rng, batch, rate)
    wanted: dict[bytes, tuple[NDArray[Any], int]] = {}
    drawn = rng.multinomial(size, kinds.probabilities)
    for kind in np.flatnonzero(drawn):
        content = np.repeat(rows[starts], kinds.counts[kind], axis=0)
        key = content.tobytes()
        wanted[key] = (content, wanted.get(key, (content, 0))[1] + int(drawn[kind]))
    parts = [(inner.draw(content, count, rng), count) for content, count in wanted.values()]
    # Independent draws are their numbers per kind of batch, which are multinomial, in random order.
    return join_outputs(parts, rng.permutation(size))


def bind_inner(
    mechanism: str | Callable[..., Any],
    parameters: Mapping[str, Any] | None,
    reproducible: bool = False,
    name: str | None = None,
) -> CallableMechanism:
    """Return the mechanism that is run on the batches, bound to its parameters. name: of a callable, in messages."""
    where = "mechanism.parameters.mechanism"
    names = [built_in for built_in in BUILTINS if built_in != SUBSAMPLED]
    if callable(mechanism):
        function = mechanism
    elif isinstance(mechanism, str) and mechanism in names:
        function = load_builtin(mechanism)
    elif isinstance(mechanism, str) and ":" in mechanism:
        # Hpcdp gives a run the callable itself; a path is found from the first place on the import path.
        function = import_callable(mechanism, Path(sys.path[0] or "."), where)
    else:
        raise refusal("mechanism", mechanism, f'a built-in ({", ".join(names)}) or "package.module:callable"')
    if parameters is not None and not isinstance(parameters, Mapping):
        raise refusal("parameters", parameters, "a table of the mechanism's keyword arguments")
    known = mechanism if isinstance(mechanism, str) else getattr(mechanism, "__name__", repr(mechanism))
    return bind(
        function, parameters or {}, name or str(known), reproducible, (where, "mechanism.parameters.parameters")
    )


def _draw_sorted(
    rows: int, draws: int, rng: np.random.Generator, batch: int | None, rate: float | None
) -> tuple[Ints, Ints]:
    """Batches in the order of the rows: places (draws, width), `rows` beyond a batch's size, and sizes (draws,)."""
    places, sizes = draw_places(rows, draws, rng, batch=batch, rate=rate)
    places[places < 0] = rows
    places.sort(axis=1)
    return places, sizes


def _draw_singly(
    inner: CallableMechanism,
    rows: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    batch: int | None,
    rate: float | None,
) -> Any:
    """Draw where there are too many kinds of batches to count: batch by batch, in blocks that memory bounds."""
    width = batch if batch is not None else int(rows.shape[0] * (rate or 0.0)) + 1
    step = max(1, _BLOCK // (width * max(1, int(np.prod(rows.shape[1:])))))
    parts: list[tuple[Any, int]] = []
    order = np.empty(size, np.int64)
    for first in range(0, size, step):
        block = slice(first, min(size, first + step))
        places, sizes = _draw_sorted(rows.shape[0], block.stop - first, rng, batch, rate)
        if hasattr(inner.function, "each"):
            parts.append((_draw_each(inner, rows, False, places, sizes, rng), sizes.size))
            order[block] = np.arange(first, block.stop)
            continue
        chosen, counts, grouped = count_contents(places, rows)
        order[block] = first + grouped
        for draw, count in zip(chosen, counts.tolist(), strict=True):
            parts.append((inner.draw(rows[places[draw, : sizes[draw]]], count, rng), count))
    return join_outputs(parts, order)


def _draw_each(
    inner: CallableMechanism, rows: NDArray[Any], many: bool, places: Ints, sizes: Ints, rng: np.random.Generator
) -> Any:
    """One output of each batch, of rows of one database or of many; those of one size together where there is a way."""
    parts: list[tuple[Any, int]] = []
    order = np.argsort(sizes, kind="stable")
    lengths, firsts = np.unique(sizes[order], return_index=True)
    for length, draws in zip(lengths.tolist(), np.split(order, firsts[1:]), strict=True):
        chosen = places[draws, :length]
        contents = rows[draws[:, None], chosen] if many else rows[chosen]
        outputs = inner.draw_each(contents, rng)
        if outputs is None:
            parts += [(inner.draw(content, 1, rng), 1) for content in contents]
        else:
            parts.append((outputs, draws.size))
    return join_outputs(parts, order)


Place = tuple[str, ...]
"""Where a parameter stands: the keys that lead to it."""


def bind_builtin(
    call: str, parameters: Mapping[str, Any], folder: Path, reproducible: bool = True
) -> tuple[CallableMechanism, str]:
    """Return a built-in bound to its parameters, and the digest of its name and of the sources of the user's callables."""
    named = named_callables(call, parameters)
    if not reproducible and not (call == SUBSAMPLED and ("mechanism",) in named):
        raise StudyError(f"mechanism.reproducible: {call} is reproducible; leave this key out")
    loaded = dict(parameters)
    for place, path in named.items():
        _put(loaded, place, import_callable(path, folder, ".".join(("mechanism.parameters", *place))))
    function = load_builtin(call)
    mechanism = bind(function, loaded, call)
    if prepare := getattr(function, "prepare", None):
        mechanism = replace(mechanism, parameters=prepare(mechanism.parameters))
    if call == SUBSAMPLED:
        try:
            bind_inner(loaded["mechanism"], loaded.get("parameters"), reproducible, named.get(("mechanism",)))
        except ValueError as error:
            raise StudyError(f"mechanism.parameters.{error}") from None
    sources = [source_digest(path, folder).encode() for path in named.values()]
    return mechanism, digest_bytes(b"builtin", call.encode(), *sources)


def named_callables(call: str, parameters: Mapping[str, Any]) -> dict[Place, str]:
    """Return the user's callables that a built-in's parameters, or those of a subsampled one, name, by place."""
    given: dict[Place, Any] = {(name,): parameters.get(name) for name in CALLABLES.get(call, ())}
    callables = {place: path for place, path in given.items() if isinstance(path, str) and ":" in path}
    inner, own = parameters.get("mechanism"), parameters.get("parameters")
    if call == SUBSAMPLED and isinstance(inner, str) and inner in BUILTINS and isinstance(own, Mapping):
        callables |= {("parameters", *place): path for place, path in named_callables(inner, own).items()}
    return callables


def _put(parameters: dict[str, Any], place: Place, value: Any) -> None:
    """Set the parameter at this place; tables on the way are copied, because they are the study's."""
    for key in place[:-1]:
        parameters[key] = dict(parameters[key])
        parameters = parameters[key]
    parameters[place[-1]] = value
