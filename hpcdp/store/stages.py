"""How the samples of a stage are cut: chunks, and blocks of chunks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpcdp.mechanisms.outputs import Schema

_BLOCK_BYTES = 32 << 20
_BLOCK_CHUNKS = 16
_SMALL = 100  # outputs: a chunk has fewer where each takes long, such as a model that is trained
_SINGLES = 64
_ENDLESS = 1 << 40  # chunks
_NAME = re.compile(r"([0-9a-f]+)-([a-z]+)-(\d+)-\d+")


@dataclass(frozen=True)
class Stage:
    """The samples of one stage of any law: how many, in which chunks, which blocks of chunks.

    A chunk is one random stream and one Zarr chunk, a block is one array. Blocks are full but for the last, whose size is in
    its name, so more samples leave every full block as it is. singles: how many blocks at the start hold one chunk each, so
    that slow draws are shared by many workers and none is lost with others.
    """

    name: str
    total: int
    chunk: int
    chunks_per_block: int
    singles: int = 0

    @classmethod
    def of(cls, name: str, total: int, chunk: int, schema: Schema) -> Stage:
        """The stage's cut, a function of the chunk's size and the outputs' schema only."""
        per_block = _BLOCK_BYTES // max(1, chunk * schema.bytes_per_output)
        singles = _SINGLES if chunk < _SMALL else 0
        return cls(name, total, chunk, max(1, min(_BLOCK_CHUNKS, per_block)), singles)

    @classmethod
    def endless(cls, chunk: int) -> Stage:
        """The batches of a sequential audit, which end when it has seen enough: each chunk is a block."""
        return cls("round", _ENDLESS * chunk, chunk, 1)

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return -(-self.total // self.chunk)

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return self.block_of(self.chunks - 1) + 1

    def chunk_size(self, chunk: int) -> int:
        """Samples in a chunk."""
        return min(self.chunk, self.total - chunk * self.chunk)

    def block_of(self, chunk: int) -> int:
        """The block that holds a chunk."""
        return chunk if chunk < self.singles else self.singles + (chunk - self.singles) // self.chunks_per_block

    def block_size(self, block: int) -> int:
        """Samples in a block."""
        chunks = self.block_chunks(block)
        return min(chunks.stop * self.chunk, self.total) - chunks.start * self.chunk

    def block_chunks(self, block: int) -> range:
        """Chunks of a block."""
        later = max(0, block - self.singles)
        start = block - later + later * self.chunks_per_block
        length = 1 if block < self.singles else self.chunks_per_block
        return range(start, min(start + length, self.chunks))

    def name_of(self, law: str, block: int) -> str:
        """Name of a block's record."""
        return f"{law}-{self.name}-{block:06d}-{self.block_size(block)}"

    def block_named(self, name: str) -> tuple[str, int] | None:
        """The law and the number of the block whose record has this name; None where it is none of this stage."""
        match = _NAME.fullmatch(name)
        if match is None or match[2] != self.name or (block := int(match[3])) >= self.blocks:
            return None
        return (match[1], block) if self.name_of(match[1], block) == name else None
