"""What a run's heartbeat tells of it: rate, time left, jobs, the dashboard, and what was planned and used."""

from __future__ import annotations

import getpass
import shutil
from typing import Any

from hpcdp._base.doing import still
from hpcdp._base.rounding import duration
from hpcdp.clusters import slurm
from hpcdp.clusters.folder import JobFolder, driver_name
from hpcdp.store.layout import Layout
from hpcdp.store.lease import read_leases


def rate_lines(owner: dict[str, Any]) -> list[str]:
    """Rate, time left, workers and the way to the dashboard of a run that goes on."""
    news = owner.get("news") or {}
    if not news.get("total"):
        return []
    left = news.get("left")
    end = f"about {duration(left)} left" if left is not None else "time left unknown yet"
    rate = f"{news['rate']:.3g} chunks/s: {news['done']:,.0f} of the {news['total']:,.0f} of this run, {end}"
    lines = [
        "  rate           " + (rate if news["done"] else f"none of this run's {news['total']:,.0f} chunks is done yet")
    ]
    threads = news.get("threads", 0)
    lines.append(f"  workers        {'none, in one process' if threads is None else f'{threads:,} threads connected'}")
    dashboard = news.get("dashboard")
    if dashboard:
        port = dashboard.rpartition(":")[2]
        lines.append(
            f"  dashboard      ssh -L {port}:{dashboard} {getpass.getuser()}@{owner['host']}, "
            f"then http://127.0.0.1:{port}"
        )
    return lines


def slow_lines(owner: dict[str, Any]) -> list[str]:
    """The draws that take long, as the last heartbeat told."""
    slow = (owner.get("news") or {}).get("slow") or []
    return [f"  {still(what)}  {what}, for {duration(seconds)}" for what, seconds in slow]


def job_lines(folder: JobFolder) -> list[str]:
    """The store's jobs that run or wait, as SLURM says now."""
    if not folder.logs.is_dir() or shutil.which("squeue") is None:
        return []
    driver = driver_name(folder.name)
    try:
        jobs = [job for job in slurm.jobs_named([driver, folder.name]) if job.is_active]
    except slurm.SlurmError as error:
        return [f"  jobs           unknown: {error}"]
    lines = []
    for job in sorted(jobs, key=lambda j: (j.name != driver, int(j.id) if j.id.isdigit() else 0)):
        kind = "driver" if job.name == driver else "worker"
        where = f"on {job.node} for {duration(job.seconds)}" if job.node else f"({job.reason})"
        lines.append(f"  {kind + ' job':<14} {job.id} {job.state.lower()} {where}")
    return lines or ["  jobs           none run or wait"]


def used_lines(layout: Layout) -> list[str]:
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
    ended: dict[str, int] = {}
    for news in clustered:
        for state, count in news["fleet"]["ended"].items():
            ended[state] = ended.get(state, 0) + count
    how = ", ".join(f"{count} {state.lower()}" for state, count in sorted(ended.items()))
    share = f", {min(100.0, 100 * busy / 3600 / core_hours):.0f} % of it in tasks" if core_hours else ""
    return [
        f"  planned        {first['jobs']:,} {word}s, {first['node_hours']:.2g} node-hours, {duration(first['seconds'])}",
        f"  used           {started:,} {word}s"
        + (f" ({how})" if how else "")
        + f", {core_hours / cores:.2g} node-hours"
        f"{share}, {duration(seconds)} in {len(clustered)} run{'s' if len(clustered) > 1 else ''}",
    ]
