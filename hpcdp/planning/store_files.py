"""How many files a store will hold: shared file systems give each user a number of them, and are slow with many."""

from __future__ import annotations

from hpcdp.store.stages import Stage
from hpcdp.study.problem import Problem

MANY = 20_000
"""Files from which on a plan warns."""


def count_files(problem: Problem, tasks: int, chunk: int | None = None) -> int:
    """Files of samples that are kept, of databases, and of the records of so many tasks; chunk: another one than the study's."""
    e = problem.study.estimate
    stages = [Stage.of(stage.name, stage.total, chunk or e.chunk, problem.schema) for stage in problem.kept_stages]
    each = (
        5 if problem.schema.kind == "bytes" else 3
    )  # an array is a description and a shard, strings are two; and a record
    return len(problem.laws) * each * sum(stage.blocks for stage in stages) + 2 * len(problem.databases) + tasks


def describe_files(problem: Problem, tasks: int) -> str:
    """A warning of too many files, and the chunk size that makes them fewer, if one does; else nothing."""
    files = count_files(problem, tasks)
    if files < MANY:
        return ""
    e = problem.study.estimate
    chunk = e.chunk
    while chunk < max(e.train, e.test):
        chunk *= 2
        fewer = count_files(problem, tasks, chunk)
        if fewer < MANY:
            return f"TOO MANY, perhaps: about {files:,}; estimate.chunk = {chunk} makes it about {fewer:,}"
    rest = 2 * len(problem.databases) + tasks
    hint = f'; estimate.keep = "none" makes it about {rest:,}' if rest < MANY else ""
    return f"TOO MANY, perhaps: about {files:,}{hint}"
