"""What is done, to do and failed in a store, and who holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from hpcdp._base.again import resume_command
from hpcdp._base.raised import readable
from hpcdp.clusters.folder import job_folder
from hpcdp.errors import DamagedError
from hpcdp.planning.index import Index, read_index
from hpcdp.planning.ways import all_done, planned
from hpcdp.report.jobs import job_lines, rate_lines, slow_lines, used_lines
from hpcdp.store.layout import Layout
from hpcdp.store.lease import holder
from hpcdp.store.records import foreign, read_records, record_names
from hpcdp.store.root import open_latest
from hpcdp.store.stages import Stage
from hpcdp.study.databases import Input
from hpcdp.study.problem import Problem
from hpcdp.study.versions import read_problem

_SHOWN = 10


def status(store: str | Path) -> str:
    """The store's state in a few lines: every stage with chunks done and to do, failures, the run that holds it."""
    with foreign(store):
        return _status(store)


def _status(store: str | Path) -> str:
    layout, version = open_latest(store)
    problem = read_problem(layout, version)
    index = read_index(layout)
    complete = all_done(index, problem)
    lines = [f"{problem.study.name} in {store}: {'complete' if complete else 'incomplete'}, study version {version}"]
    lines += _stages(problem, index)
    lines += _batches(layout, index)
    aside = sum(1 for depth in ("*", "*/*") for _ in (layout.root / "records").glob(f"{depth}/*.damaged"))
    since = "all computed again since" if complete else "computed again by the next run"
    lines.append(f"  set aside      {f'{aside} damaged records, {since}' if aside else 'none'}")
    owner = holder(layout)
    lines.append(
        "  held by        nobody"
        if owner is None
        else f"  held by        process {owner['process']} on {owner['host']}, last heartbeat {owner['age']:.0f} s ago"
    )
    if owner is not None:
        lines += rate_lines(owner) + slow_lines(owner)
    folder = job_folder(layout, problem.study.name)
    lines += job_lines(folder)
    lines += used_lines(layout)
    lines += _runs(layout, is_running=owner is not None)
    if not complete and owner is None:
        place = folder.profile if folder.profile.is_file() else "local"
        lines.append(f"  go on with     {resume_command(store, place)}")
    return "\n".join(lines)


def _batches(layout: Layout, index: Index) -> list[str]:
    """Of sequential audits: chunks that were drawn for their batches, and batches that were judged."""
    drawn = sum(name.split("-")[1:2] == ["round"] for name in index.samples)
    judged = len(record_names(layout, "rounds"))
    return [f"  batches        {drawn:,} chunks drawn, {judged:,} looks (audit --sequential)"] if drawn else []


def _stages(problem: Problem, index: Index) -> list[str]:
    lines = []
    for stage in problem.kept_stages:
        done = sum(len(stage.block_chunks(b)) for b in _sampled(stage, problem.laws, index.samples))
        lines.append(_line(f"sample {stage.name}", done, stage.chunks * len(problem.laws), "chunks"))
    return lines + [_line(p.name, p.done, p.total, p.unit) for p in planned(problem).progress(problem, index)]


def _sampled(stage: Stage, laws: Mapping[str, Input], names: AbstractSet[str]) -> Iterator[int]:
    """Blocks of a stage that have records, of all laws, found by the records' names: a stage may have far more blocks."""
    for name in names:
        law, _, rest = name.partition("-")
        number = rest.removeprefix(f"{stage.name}-").partition("-")[0]
        block = int(number) if number.isdecimal() else stage.blocks
        if law in laws and block < stage.blocks and stage.name_of(law, block) == name:
            yield block


def _line(name: str, done: int, total: int, unit: str = "") -> str:
    return f"  {name:<14} {done:,} of {total:,} {unit} done, {total - done:,} to do".replace("  done", " done")


def _runs(layout: Layout, is_running: bool) -> list[str]:
    found = [body for _, body in read_records(layout, "runs") if not isinstance(body, DamagedError)]
    lines = [f"  runs           {len(found)}"]
    if found:
        last = found[-1]
        end = last["end"]["time"] if "end" in last else "(no end noted)"
        lines.append(f"  last run       {last['begin']['host']}, from {last['begin']['time']} to {end}")
        if last.get("stopped"):
            lines.append(f"  ended early    {last['stopped']}")
        elif "end" not in last and not is_running:
            lines.append("  ended early    it noted no end: it was killed, or raised an error")
        failed = last["failed"]
        lines.append(f"  failed         {len(failed) or 'none'}" + (" in the last run:" if failed else ""))
        lines += [f"    {readable(line)}" for line in failed[:_SHOWN]] + (["    …"] if len(failed) > _SHOWN else [])
    return lines
