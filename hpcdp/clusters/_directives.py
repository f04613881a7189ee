"""Options of sbatch that a profile's jobs cannot have: one script must be one job, of its own name, that runs.

Jobs are found by their name and id, on this cluster. An array would start many drivers or workers of one id; --test-only
submits nothing; --wait lets sbatch return when the job is over; --wrap takes the place of the script.
"""

from __future__ import annotations

import re
import shlex

_SHORT = {"--array": "-a", "--clusters": "-M", "--job-name": "-J", "--wait": "-W"}
REFUSED = (*_SHORT, "--test-only", "--wrap")
ENVIRONMENT = ("SBATCH_ARRAY_INX", "SBATCH_CLUSTERS", "SBATCH_JOB_NAME", "SBATCH_WAIT")
"""The same options as variables; sbatch lets them rule what a script says."""


def refused_in(line: str) -> str | None:
    """The first such option among those of a line, as after #SBATCH; None where there is none."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # a quote that does not end: sbatch itself will say so
        words = line.split()
    return next((name for word in words for name in REFUSED if _means(word, name)), None)


def _means(word: str, name: str) -> bool:
    given = word.partition("=")[0]
    if len(given) > 2 and name.startswith(
        given
    ):  # sbatch takes beginnings, and refuses those of several options itself
        return True
    short = _SHORT.get(name)
    return bool(short and re.match(rf"-[HIQhksv]*{short[1]}", word))
