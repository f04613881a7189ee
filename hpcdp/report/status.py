"""What is done, to do and failed in a store, and who holds it."""

from __future__ import annotations

from pathlib import Path

from hpcdp._base.raised import readable
from hpcdp.clusters.folder import job_folder
from hpcdp.errors import DamagedError
from hpcdp.report.done import find_done
from hpcdp.report.jobs import job_lines, rate_lines, slow_lines, used_lines
from hpcdp.store.again import resume_command
from hpcdp.store.layout import Layout
from hpcdp.store.lease import holder
from hpcdp.store.records import count_damaged, foreign, read_records
from hpcdp.store.root import open_latest

_SHOWN = 10


def status(store: str | Path) -> str:
    """The store's state in a few lines: every stage with chunks done and to do, failures, the run that holds it."""
    with foreign(store):
        return _status(store)


def _status(store: str | Path) -> str:
    layout, version = open_latest(store)
    name, complete, stages = find_done(layout, version)
    lines = [f"{name} in {store}: {'complete' if complete else 'incomplete'}, study version {version}", *stages]
    aside = count_damaged(layout)
    since = "all computed again since" if complete else "computed again by the next run"
    lines.append(f"  damaged        {f'{aside} records, {since}' if aside else 'none'}")
    owner = holder(layout)
    lines.append(
        "  held by        nobody"
        if owner is None
        else f"  held by        process {owner['process']} on {owner['host']}, last heartbeat {owner['age']:.0f} s ago"
    )
    if owner is not None:
        lines += rate_lines(owner) + slow_lines(owner)
    folder = job_folder(layout, name)
    lines += job_lines(folder)
    lines += used_lines(layout)
    lines += _runs(layout, is_running=owner is not None)
    if not complete and owner is None:
        place = folder.profile if folder.profile.is_file() else "local"
        lines.append(f"  go on with     {resume_command(store, place)}")
    return "\n".join(lines)


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
