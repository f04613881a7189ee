"""Methods of estimating, a module or a package each; and what a method of another package is made of.

A method names series of sums, says how outputs are added up, and derives results from the sums; planning, tasks, records,
progress and resuming are hpcdp's. A package offers one by an entry point of the group "hpcdp.methods" (docs/extending.md).
"""

from hpcdp.engine.method import Adder, Learned, Method
from hpcdp.engine.series import Effort, Phase, Series
from hpcdp.methods.classes import entries_of_outcomes, total_of

__all__ = ["Adder", "Effort", "Learned", "Method", "Phase", "Series", "entries_of_outcomes", "total_of"]
