"""What a run should need of a cluster: jobs, node-hours, time; heuristic, from the cost model and an empty queue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hpcdp.clusters.profile import Profile
from hpcdp.engine.task import Task

_START = 60.0  # seconds from a job's start to its first task: to start, and to compile kernels once a node


@dataclass(frozen=True)
class ClusterNeeds:
    """at_once: jobs that run together. jobs: over all walltimes. seconds: if no job has to wait. longest: of one task.

    useful: seconds in which a job takes tasks. share: of the slots' time in which they work.
    core_hours: of the workers' jobs; node_hours: the same in nodes of cores_per_node (by default, of a job's) cores.
    """

    at_once: int
    jobs: int
    core_hours: float
    node_hours: float
    seconds: float
    longest: float
    useful: float
    share: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @property
    def has_endless_task(self) -> bool:
        """Whether a task may take longer than a job takes tasks: it would begin again and again."""
        return self.longest > self.useful


def cluster_needs(tasks: Sequence[Task], profile: Profile) -> ClusterNeeds:
    """What these tasks should need on a profile's cluster."""
    worker = profile.worker
    total = sum(task.seconds for task in tasks)
    longest = max((task.seconds for task in tasks), default=0.0)
    at_once = max(1, profile.jobs_for(len(tasks), total))
    seconds = max(longest, total / (at_once * worker.slots)) + _START
    jobs = at_once * math.ceil(seconds / profile.useful_seconds)
    core_hours = at_once * worker.cores * seconds / 3600
    return ClusterNeeds(
        at_once=at_once,
        jobs=jobs,
        core_hours=core_hours,
        node_hours=core_hours / (worker.cores_per_node or worker.cores),
        seconds=seconds,
        longest=longest,
        useful=profile.useful_seconds,
        share=total / (at_once * worker.slots * seconds),
    )
