"""What of every stage is in a store, and whether it is all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from hpcdp.importance.plan import chosen_words
from hpcdp.planning.index import Index, read_index
from hpcdp.planning.ways import all_done, planned
from hpcdp.store.layout import Layout
from hpcdp.store.records import record_names
from hpcdp.store.stages import Stage
from hpcdp.study.databases import Input
from hpcdp.study.problem import Problem
from hpcdp.study.versions import read_problem


def find_done(layout: Layout, version: int) -> tuple[str, bool, list[str]]:
    """The study's name, whether all is done, and a line of every stage with what is done and to do."""
    problem = read_problem(layout, version)
    index = read_index(layout)
    stages = _stages(problem, index) + _batches(layout, index) + _audits(layout, problem)
    return problem.study.name, all_done(index, problem), stages


def _batches(layout: Layout, index: Index) -> list[str]:
    """Of sequential audits: chunks that were drawn for their batches, and batches that were judged."""
    drawn = sum(name.split("-")[1:2] == ["round"] for name in index.samples)
    judged = len(record_names(layout, "rounds"))
    return [f"  batches        {drawn:,} chunks drawn, {judged:,} looks (audit --sequential)"] if drawn else []


def _audits(layout: Layout, problem: Problem) -> list[str]:
    """What sequential audits have found."""
    if not record_names(layout, "rounds"):
        return []
    from hpcdp.results.sequential import stored_audits

    return [
        f"  audited        {audit.claim}: {audit.verdict}, after {audit.looks[-1].samples:,} samples per database"
        for audit in stored_audits(layout, problem.study)
    ]


def _stages(problem: Problem, index: Index) -> list[str]:
    lines = []
    for stage in problem.kept_stages:
        done = sum(len(stage.block_chunks(b)) for b in _sampled(stage, problem.laws, index.samples))
        lines.append(_line(f"sample {stage.name}", done, stage.chunks * len(problem.laws), "chunks"))
    lines += [_line(p.name, p.done, p.total, p.unit) for p in planned(problem).progress(problem, index)]
    if problem.study.estimate.tape:
        lines += [f"  {name:<14} {words}" for name, words in chosen_words(problem, index)]
    return lines


def _sampled(stage: Stage, laws: Mapping[str, Input], names: AbstractSet[str]) -> Iterator[int]:
    """Blocks of a stage that have records, of all laws, found by the records' names: a stage may have far more blocks."""
    for name in names:
        found = stage.block_named(name)
        if found is not None and found[0] in laws:
            yield found[1]


def _line(name: str, done: int, total: int, unit: str = "") -> str:
    return f"  {name:<14} {done:,} of {total:,} {unit} done, {total - done:,} to do".replace("  done", " done")
