"""How the samples of a stage are cut: chunks, and blocks of chunks."""

from __future__ import annotations

from dataclasses import dataclass

from hpcdp.outputs import Schema

_BLOCK_BYTES = 32 << 20
_BLOCK_CHUNKS = 16


@dataclass(frozen=True)
class Stage:
    """The samples of one stage of any law: how many, in which chunks, which blocks of chunks.

    A chunk is one random stream and one Zarr chunk, a block is one array. Blocks are full but for the last, whose size is in
    its name, so more samples leave every full block as it is.
    """

    name: str
    total: int
    chunk: int
    chunks_per_block: int

    @classmethod
    def of(cls, name: str, total: int, chunk: int, schema: Schema) -> Stage:
        """The stage's cut, a function of the chunk's size and the outputs' schema only."""
        per_block = _BLOCK_BYTES // max(1, chunk * schema.bytes_per_output)
        return cls(name, total, chunk, max(1, min(_BLOCK_CHUNKS, per_block)))

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return -(-self.total // self.chunk)

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return -(-self.chunks // self.chunks_per_block)

    def chunk_size(self, chunk: int) -> int:
        """Samples in a chunk."""
        return min(self.chunk, self.total - chunk * self.chunk)

    def block_size(self, block: int) -> int:
        """Samples in a block."""
        full = self.chunk * self.chunks_per_block
        return min(full, self.total - block * full)

    def block_chunks(self, block: int) -> range:
        """Chunks of a block."""
        start = block * self.chunks_per_block
        return range(start, min(start + self.chunks_per_block, self.chunks))

    def name_of(self, law: str, block: int) -> str:
        """Name of a block's record."""
        return f"{law}-{self.name}-{block:06d}-{self.block_size(block)}"
