"""knn of sequences: what is no number in them makes strata, and the numbers have the metric.

A sequence is its frame (its length, nesting, strings and nulls, with a gap for each number) and its numbers. Outputs of
one frame are vectors of one length, and knn runs among them as it does among vectors. Frames without numbers, and
strings, are values like any others. Values of fewer than `rare` points, and the outputs of frames of fewer, are one value;
so is what training never saw.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.frequency.distinct import Distinct, learn_distinct
from hpcdp.losses.knn._strata import VoteSource, group
from hpcdp.losses.knn.parameters import MOST_SEQUENCES
from hpcdp.losses.protocol import Outputs, Side

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Learn = Callable[[Floats, Floats], VoteSource]

# Strings and numbers as `hpcdp.mechanisms.special` writes them; parsing JSON would take three times as long.
_TOKENS = re.compile(rb'("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d*[1-9])?(?:e[+-]\d+)?)')
_BETWEEN = b"[],nul"
_GAP = b"{}"  # no canonical output has a brace outside a string
_HEAD = 1 << 12


def split(output: bytes) -> tuple[bytes, list[float]]:
    """The frame and the numbers of canonical bytes; a string is its own frame."""
    if not output.startswith(b"["):
        return output, []
    parts = _TOKENS.split(output)
    if b"".join(parts[::2]).translate(None, _BETWEEN):  # a string that begins like a sequence
        return output, []
    numbers = []
    for place in range(1, len(parts), 2):
        if not parts[place].startswith(b'"'):
            numbers.append(float(parts[place]))
            parts[place] = _GAP
    return b"".join(parts), numbers


def hold_numbers(sides: Sequence[Side]) -> bool:
    """Whether one of the first outputs is a sequence with numbers."""
    return any(split(output)[1] for side in sides for block in islice(side.blocks(), 1) for output in block[:_HEAD])


@dataclass(frozen=True, eq=False)
class SequenceVotes:
    """Votes of values and of sequences with numbers.

    frames: the frames that training saw. c0, c1: votes of each frame's points, and last those of all rare ones. sources:
    votes among the numbers of a frame's outputs, None of a frame without numbers or with too few points.
    """

    frames: Distinct
    c0: Ints
    c1: Ints
    sources: list[VoteSource | None]

    @classmethod
    def learn(cls, p: Outputs, q: Outputs, rare: int, learn: Learn) -> SequenceVotes:
        """From training outputs, object arrays of canonical bytes; `learn` makes votes of numbers (size, d) of two sides."""
        words, codes = learn_distinct(np.concatenate([p, q]))
        held = [np.bincount(part, minlength=words.size) for part in (codes[: p.size], codes[p.size :])]
        parts = [split(word) for word in words.values()]
        frames, of_word = learn_distinct(_objects([frame for frame, _ in parts]))
        numbers = [own for _, own in parts]
        c0, c1 = (np.bincount(of_word, weights=side, minlength=frames.size).astype(np.int64) for side in held)
        few = c0 + c1 < rare
        sources: list[VoteSource | None] = [None] * frames.size
        for frame, members in enumerate(group(of_word, frames.size)):
            if not few[frame] and numbers[members[0]]:
                table = np.array([numbers[word] for word in members])
                sources[frame] = learn(*(np.repeat(table, side[members], axis=0) for side in held))
        rest = (c0[few].sum(), c1[few].sum())
        c0[few], c1[few] = rest
        return cls(frames, np.append(c0, rest[0]), np.append(c1, rest[1]), sources)

    def votes(self, outputs: Outputs) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size,) of canonical bytes, int64, shape (size,) each."""
        words, codes = learn_distinct(outputs)  # each distinct output is looked at once
        parts = [split(word) for word in words.values()]
        indices = self.frames.find(_objects([frame for frame, _ in parts]))
        v0, v1 = self.c0[indices], self.c1[indices]
        for source, members in zip(self.sources, group(indices, self.frames.size), strict=True):
            if source is not None and members.size:
                v0[members], v1[members] = source.votes(np.array([parts[word][1] for word in members]))
        return v0[codes], v1[codes]


def _objects(words: list[bytes]) -> Outputs:
    out = np.empty(len(words), object)
    out[:] = words
    return out


def first_of(side: Side) -> Outputs:
    """The first `MOST_SEQUENCES` outputs of a side."""
    if side.size <= MOST_SEQUENCES:
        return side.outputs
    blocks, size = [], 0
    for block in side.blocks():
        blocks.append(block[: MOST_SEQUENCES - size])
        size += blocks[-1].size
        if size == MOST_SEQUENCES:
            break
    return np.concatenate(blocks)
