"""Keys are contents, not positions: digests, and the random streams that belong to them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STAGES = {
    "train": 0,
    "test": 1,
    "round": 2,
    "refine": 3,
    "validation": 4,
    "screen": 5,
    "level": 6,
    "tape": 7,
    "leftover": 8,
}
"""Stage codes of the random streams; later stages get the next numbers, the numbers never change."""

# One for all, since making it costs as much as its use.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_TRIAL = 1 << 30  # a stage of its own, so that trial draws share no stream with a run


def digest_bytes(*parts: bytes) -> str:
    """128-bit BLAKE2b digest, 32 hexadecimal digits, of the parts with their lengths."""
    return _digest(*parts).hexdigest()


def _digest(*parts: bytes) -> hashlib.blake2b:
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        _update(state, part)
    return state


def _update(state: hashlib.blake2b, part: bytes) -> None:
    state.update(len(part).to_bytes(8, "little"))
    state.update(part)


def canonical_json(value: Any) -> bytes:
    """One spelling of a JSON value: sorted keys, no spaces, shortest floats."""
    return _ENCODER.encode(value).encode()


def digest_json(value: Any) -> str:
    """Digest of a JSON value's one spelling."""
    return digest_bytes(canonical_json(value))


def digest_array(array: NDArray[Any]) -> str:
    """Digest of an array's dtype, shape and bytes; object arrays hold bytes."""
    head = canonical_json([array.dtype.str, list(array.shape)])
    if array.dtype == object:
        lengths = np.fromiter((len(item) for item in array), np.int64, array.size)
        return digest_bytes(head, lengths.tobytes(), b"".join(array))
    return digest_bytes(head, np.ascontiguousarray(array).tobytes())


def law_key(mechanism: str, parameters: Mapping[str, Any], database: str, stream: str = "numpy") -> str:
    """Key of an output distribution: the mechanism, its parameters, the digest of what it is run on, and its kind of stream."""
    return law_keys(mechanism, parameters, stream)(database)


def law_keys(mechanism: str, parameters: Mapping[str, Any], stream: str = "numpy") -> Callable[[str], str]:
    """`law_key` of one mechanism with its parameters, which are digested once for all databases."""
    head = _digest(b"law", mechanism.encode(), canonical_json(parameters))
    others = () if stream == "numpy" else (stream.encode(),)  # the first stores knew no other

    def key(database: str) -> str:
        state = head.copy()
        for part in (database.encode(), *others):
            _update(state, part)
        return state.hexdigest()

    return key


def stream(seed: int, key: str, stage: str | None, chunk: int) -> np.random.Generator:
    """NumPy's random stream of one chunk of one stage of one law; stage None is for trial draws."""
    return np.random.Generator(np.random.PCG64(sequence(seed, key, stage, chunk)))


def sequence(seed: int, key: str, stage: str | None, chunk: int) -> np.random.SeedSequence:
    """What any kind of stream of that chunk is seeded with."""
    words = [int(key[start : start + 8], 16) for start in range(0, 32, 8)]
    code = _TRIAL if stage is None else STAGES[stage]
    return np.random.SeedSequence(seed, spawn_key=(*words, code, chunk))
