"""What is done, to do and failed in a store, and who holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from hpcdp._raised import readable
from hpcdp.again import resume_command
from hpcdp.clusters.folder import job_folder
from hpcdp.databases import Input
from hpcdp.errors import DamagedError, StoreError
from hpcdp.index import Index, all_done, first_of, literal_keys, read_index
from hpcdp.pool import Cut
from hpcdp.problem import Problem
from hpcdp.report.jobs import job_lines, rate_lines, slow_lines, used_lines
from hpcdp.spans import merged_length
from hpcdp.stages import Stage
from hpcdp.store.layout import Layout
from hpcdp.store.lease import holder
from hpcdp.store.records import foreign, read_records, record_names
from hpcdp.store.studies import latest_version, open_layout, read_problem

_SHOWN = 10


def status(store: str | Path) -> str:
    """The store's state in a few lines: every stage with chunks done and to do, failures, the run that holds it."""
    with foreign(store):
        return _status(store)


def _status(store: str | Path) -> str:
    layout = open_layout(Path(store))
    version = latest_version(layout)
    if not version:
        raise StoreError(f"{store} holds no study yet; run the study file again")
    problem = read_problem(layout, version)
    index = read_index(layout)
    complete = all_done(index, problem)
    lines = [f"{problem.study.name} in {store}: {'complete' if complete else 'incomplete'}, study version {version}"]
    lines += (
        [_line("cells", sum(k in index.cells for k in literal_keys(problem)), len(literal_keys(problem)))]
        if (problem.is_literal)
        else _stages(problem, index)
    )
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
    wanted = problem.thresholds.tolist()
    if problem.is_reused:
        pools, parts = first_of(problem.pool_keys), range(len(Cut.of(problem.study.estimate.pool).parts))
        todo = sum(bool(index.unpooled(pool, part, wanted)) for pool in pools for part in parts)
        return [
            *lines,
            _line("learn, count", len(pools) * len(parts) - todo, len(pools) * len(parts), "parts of pairs"),
        ]
    models = first_of(problem.model_keys)
    if problem.is_refined:
        lines += _tallied(problem, index)
    learned = sum(index.is_learned(m, wanted) for m in models)
    lines.append(_line("learn", learned, len(models), "pairs"))
    done = total = 0
    for model, number in models.items():
        test = problem.stage_of("test", number)
        sets = index.threshold_sets(model, wanted, test)
        left = merged_length(gap for t in sets for gap in index.missing(model, t, test))
        done, total = done + test.chunks - left, total + test.chunks
    lines.append(_line("count test", done, total, "chunks"))
    return lines


def _sampled(stage: Stage, laws: Mapping[str, Input], names: AbstractSet[str]) -> Iterator[int]:
    """Blocks of a stage that have records, of all laws, found by the records' names: a stage may have far more blocks."""
    for name in names:
        law, _, rest = name.partition("-")
        number = rest.removeprefix(f"{stage.name}-").partition("-")[0]
        block = int(number) if number.isdecimal() else stage.blocks
        if law in laws and block < stage.blocks and stage.name_of(law, block) == name:
            yield block


def _tallied(problem: Problem, index: Index) -> list[str]:
    found = first_of(problem.pilot_keys).items()
    pilots = {key: number for key, number in found if problem.sizes_of(number).refine}
    lines = [_line("learn pilots", sum(key in index.pilots for key in pilots), len(pilots), "pairs")]
    for name in ("refine", "validation"):
        stages = {key: problem.stage_of(name, number) for key, number in pilots.items()}
        left = sum(len(gap) for key, stage in stages.items() for gap in index.untallied(key, stage))
        total = sum(stage.chunks for stage in stages.values())
        lines.append(_line(f"tally {name}", total - left, total, "chunks"))
    return lines


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
