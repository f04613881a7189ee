"""How many files a store will hold: shared file systems give each user a number of them, and are slow with many."""

from __future__ import annotations

from hpcdp.engine.sampling import is_small
from hpcdp.store.databases import count_files as count_databases
from hpcdp.store.packs import PACK_BYTES
from hpcdp.store.stages import Stage
from hpcdp.study.problem import Problem

MANY = 20_000
"""Files from which on a plan warns."""

_OWN = 120  # files and folders of records, leases and root arrays


def count_files(problem: Problem, chunk: int | None = None) -> int:
    """Files and folders of samples that are kept, of databases, and of the store itself; chunk: another one than the study's."""
    e = problem.study.estimate
    stages = [Stage.of(stage.name, stage.total, chunk or e.chunk, problem.schema) for stage in problem.kept_stages]
    small = [stage for stage in stages if is_small(problem, stage)]
    packs = -(-len(problem.laws) * sum(problem.schema.bytes_stored(stage.total) for stage in small) // PACK_BYTES)
    each = 10 if problem.schema.kind == "bytes" else 4  # an array is a description and a shard, and their folders
    blocks = len(problem.laws) * (sum(stage.blocks for stage in stages) - len(small))
    return each * (blocks + packs) + count_databases(problem.databases) + _OWN


def describe_files(problem: Problem) -> str:
    """A warning of too many files, and the chunk size that makes them fewer, if one does; else nothing."""
    files = count_files(problem)
    if files < MANY:
        return ""
    e = problem.study.estimate
    chunk = e.chunk
    while chunk < max(e.train, e.test):
        chunk *= 2
        fewer = count_files(problem, chunk)
        if fewer < MANY:
            return f"TOO MANY, perhaps: about {files:,}; estimate.chunk = {chunk} makes it about {fewer:,}"
    rest = count_databases(problem.databases) + _OWN
    hint = f'; estimate.keep = "none" makes it about {rest:,}' if rest < MANY else ""
    return f"TOO MANY, perhaps: about {files:,}{hint}"
