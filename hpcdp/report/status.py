"""What is done, to do and failed in a store, who holds it, what a run's heartbeat tells of it, and the logs of its jobs."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcdp._base.doing import still
from hpcdp._base.files import read_tail
from hpcdp._base.raised import readable
from hpcdp._base.rounding import duration
from hpcdp.clusters import slurm
from hpcdp.clusters.slurm import JobFolder, driver_name, job_folder
from hpcdp.engine.index import Index, read_index
from hpcdp.engine.method import method_of
from hpcdp.errors import DamagedError, StoreError, StudyError
from hpcdp.store.layout import Layout
from hpcdp.store.lease import holder, read_leases
from hpcdp.store.records import count_damaged, foreign, read_records, record_names
from hpcdp.store.root import open_latest, resume_command
from hpcdp.study.problem import Problem
from hpcdp.study.versions import read_problem

_SHOWN = 10  # failures that are listed
_MOST_BYTES = 16 << 20  # of the end of a log


def _line(name: str, words: str) -> str:
    return f"  {name:<14} {words}"


def status(store: str | Path) -> str:
    """The store's state in a few lines: every stage with chunks done and to do, failures, the run that holds it."""
    with foreign(store):
        layout, version = open_latest(store)
        problem, index = read_problem(layout, version), read_index(layout)
        name, complete, owner = problem.study.name, method_of(problem).is_done(problem, index), holder(layout)
        aside = count_damaged(layout)
        since = "all computed again since" if complete else "computed again by the next run"
        held = owner and f"process {owner['process']} on {owner['host']}, last heartbeat {owner['age']:.0f} s ago"
        folder = job_folder(layout, name)
        stages, drawn = _stages(problem, index)
        is_alone = not drawn and bool(record_names(layout, "rounds"))
        state = "sequential audits alone" if is_alone else "complete" if complete else "incomplete"
        lines = [
            f"{name} in {store}: {state}, study version {version}",
            *([] if is_alone else stages),
            *_batches(layout, index, problem),
            _line("damaged", f"{aside} records, {since}" if aside else "none"),
            _line("held by", held or "nobody"),
            *([] if owner is None else _heartbeat(owner)),
            *_jobs(folder),
            *_used(layout),
            *_runs(layout, is_running=owner is not None),
        ]
        if not complete and owner is None and not is_alone:
            # of another user it could name commands, which jobs of the user who types this would run
            is_own = folder.profile.is_file() and folder.profile.stat().st_uid == os.geteuid()
            place = folder.profile if is_own else "local"
            lines.append(_line("go on with", resume_command(store, place)))
        return "\n".join(lines)


def _stages(problem: Problem, index: Index) -> tuple[list[str], int]:
    """Of every stage what is done and to do; how much is done in all."""
    progress = []
    for stage in problem.kept_stages:
        blocks = [stage.block_named(name) for name in index.samples]  # a stage may have far more blocks than records
        done = sum(
            len(stage.block_chunks(block[1])) for block in blocks if block is not None and block[0] in problem.laws
        )
        progress.append((f"sample {stage.name}", done, stage.chunks * len(problem.laws), "chunks "))
    progress += [
        (p.name, p.done, p.total, f"{p.unit} " * bool(p.unit)) for p in method_of(problem).progress(problem, index)
    ]
    lines = [
        _line(name, f"{done:,} of {total:,} {unit}done, {total - done:,} to do") for name, done, total, unit in progress
    ]
    lines += [_line(name, words) for name, words in method_of(problem).describe_learned(problem, index)]
    return lines, sum(done for _, done, _, _ in progress)


def _batches(layout: Layout, index: Index, problem: Problem) -> list[str]:
    """Of sequential audits: chunks that were drawn for their batches, batches that were judged, and what was found."""
    drawn = sum(name.split("-")[1:2] == ["round"] for name in index.samples)
    judged = len(record_names(layout, "rounds"))
    lines = [_line("batches", f"{drawn:,} chunks drawn, {judged:,} looks (audit --sequential)")] if drawn else []
    if not judged:
        return lines
    from hpcdp.results.sequential import stored_audits

    return lines + [
        _line(
            "audited",
            f"{audit.claim}: {audit.verdict}, after {audit.looks[-1].samples:,} samples per database"
            + "; unfinished: the same audit command goes on" * (not audit.ended),
        )
        for audit in stored_audits(layout, problem.study)
    ]


def _heartbeat(owner: dict[str, Any]) -> list[str]:
    """Rate, time left, workers, the way to the dashboard and the draws that take long, of a run that goes on."""
    news = owner.get("news") or {}
    slow = [f"  {still(what)}  {what}, for {duration(seconds)}" for what, seconds in news.get("slow") or []]
    if not news.get("total"):
        return slow
    left = news.get("left")
    end = f"about {duration(left)} left" if left is not None else "time left unknown yet"
    rate = f"{news['rate']:.3g} chunks/s: {news['done']:,.0f} of the {news['total']:,.0f} of this run, {end}"
    threads = news.get("threads", 0)
    lines = [
        _line("rate", rate if news["done"] else f"none of this run's {news['total']:,.0f} chunks is done yet"),
        _line("workers", "none, in one process" if threads is None else f"{threads:,} threads connected"),
    ]
    if dashboard := news.get("dashboard"):
        port = dashboard.rpartition(":")[2]
        tunnel = shlex.join(["ssh", "-L", f"{port}:{dashboard}", f"{getpass.getuser()}@{owner['host']}"])
        lines.append(_line("dashboard", f"{tunnel}, then http://127.0.0.1:{port}"))
    return lines + slow


def _jobs(folder: JobFolder) -> list[str]:
    """The store's jobs that run or wait, as SLURM says now."""
    if not folder.logs.is_dir() or shutil.which("squeue") is None:
        return []
    driver = driver_name(folder.name)
    try:
        jobs = [job for job in slurm.jobs_named([driver, folder.name]) if job.is_active]
    except slurm.SlurmError as error:
        return [_line("jobs", f"unknown: {error}")]
    lines = []
    for job in sorted(jobs, key=lambda j: (j.name != driver, int(j.id) if j.id.isdigit() else 0)):
        kind = "driver" if job.name == driver else "worker"
        where = f"on {job.node} for {duration(job.seconds)}" if job.node else f"({job.reason})"
        lines.append(_line(f"{kind} job", f"{job.id} {job.state.lower()} {where}"))
    return lines or [_line("jobs", "none run or wait")]


def _used(layout: Layout) -> list[str]:
    """What all runs on a cluster were planned to need, and what they used."""
    runs = [lease["news"] for lease in read_leases(layout) if lease.get("news")]
    clustered = [news for news in runs if news.get("fleet") and news.get("forecast")]
    if not clustered:
        return []
    first = clustered[0]["forecast"]
    cores = first["core_hours"] / first["node_hours"] if first["node_hours"] else 1.0
    core_hours = sum(news["fleet"]["core_seconds"] for news in clustered) / 3600
    started = sum(news["fleet"]["started"] for news in clustered)
    seconds = sum(news["seconds"] for news in clustered)
    busy = sum(news["busy_seconds"] for news in clustered)
    word = clustered[0]["fleet"]["word"]
    ended = sum((Counter(news["fleet"]["ended"]) for news in clustered), Counter[str]())
    how = ", ".join(f"{count} {state.lower()}" for state, count in sorted(ended.items()))
    share = f", {min(100.0, 100 * busy / 3600 / core_hours):.0f} % of it in tasks" if core_hours else ""
    many = f"{len(clustered)} run{'s' if len(clustered) > 1 else ''}"
    used = f"{started:,} {word}s" + (f" ({how})" if how else "")
    plan = f"{first['jobs']:,} {word}s, {first['node_hours']:.2g} node-hours, {duration(first['seconds'])}"
    return [
        _line("planned", plan),
        _line("used", f"{used}, {core_hours / cores:.2g} node-hours{share}, {duration(seconds)} in {many}"),
    ]


def _runs(layout: Layout, is_running: bool) -> list[str]:
    runs = [body for _, body in read_records(layout, "runs") if not isinstance(body, DamagedError)]
    lines = [_line("runs", f"{len(runs)}")]
    if runs:
        last = runs[-1]
        end = last["end"]["time"] if "end" in last else "(no end noted)"
        lines.append(_line("last run", f"{last['begin']['host']}, from {last['begin']['time']} to {end}"))
        if last.get("stopped"):
            lines.append(_line("ended early", last["stopped"]))
        elif "end" not in last and not is_running:
            lines.append(_line("ended early", "it noted no end: it was killed, or raised an error"))
        failed = last["failed"]
        lines.append(_line("failed", f"{len(failed)} in the last run:" if failed else "none"))
        lines += [f"    {readable(line)}" for line in failed[:_SHOWN]] + (["    …"] if len(failed) > _SHOWN else [])
    return lines


def logs(folder: JobFolder, lines: int, job: str | None = None) -> Iterator[str]:
    """The last lines of each log, drivers' first, under the file's name; empty logs are left out unless asked for by job."""
    paths = sorted(folder.logs.glob("*.log"), key=lambda p: (not p.name.startswith("driver"), len(p.name), p.name))
    chosen = paths if job is None else [path for path in paths if job in path.stem.split("-")]
    if not chosen and job is not None:
        names = ", ".join(path.stem for path in paths) or "none"
        raise StudyError(f"--job: one of the logs in {folder.logs} ({names}); given: {job}")
    if not chosen:
        raise StudyError(f"no logs in {folder.logs}: no job of this store has begun")
    for path in chosen:
        try:
            text = read_tail(path, _MOST_BYTES).decode(errors="replace").splitlines()
        except ValueError as error:
            raise StoreError(f"the log {path} cannot be read: {error}") from None
        if text or job is not None:
            yield f"==> {path} <=="
            yield from text[-lines:]
            yield ""
