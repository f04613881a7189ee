"""Work of random tapes: stages that learn, draws from proposals, and plain draws that bound the leftover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.doing import drawing
from hpcdp._base.node import NodeExecutor, ProcessDied
from hpcdp._base.raised import readable
from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import ChunkError, Found, NewFile, Report
from hpcdp.engine.series import Series, record_name
from hpcdp.errors import DamagedError, HpcdpError, MechanismError
from hpcdp.importance._kernels import find_inside
from hpcdp.importance.bounds import spread
from hpcdp.importance.choice import asked_of, choose, goal_of
from hpcdp.importance.generator import Tape, draw_tape
from hpcdp.importance.kinds import Bools, Floats, Ints, Proposal
from hpcdp.importance.levels import learn
from hpcdp.importance.ownership import NOT_OWN, ONE, OUTPUTS, find_rows, keeps_rows
from hpcdp.importance.plan import CHUNK, FEW, LOOKED, Choice, few_of, last_of, level_series, tape_keys
from hpcdp.importance.sums import Cells, count_leftover, sum_lower, sum_upper
from hpcdp.losses import kind_of, make_loss
from hpcdp.losses.auto import projecting_loss
from hpcdp.losses.line.lookup import Lookup
from hpcdp.losses.line.step import Projection, projection_state, restore_projection
from hpcdp.losses.protocol import Side
from hpcdp.mechanisms.code_digest import modules_of
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.mechanisms.user_code import held, pickled
from hpcdp.store.arrays import digest_of, fingerprint, read_state
from hpcdp.store.tallies import DamagedRecord
from hpcdp.study.declared import Declared
from hpcdp.study.mechanism import FunctionCall
from hpcdp.study.named_code import names_code
from hpcdp.study.problem import Problem
from hpcdp.study.sampler import Sampler

State = dict[str, NDArray[Any]]
Layout = list[tuple[str, int]]  # see `Tape.layout`

_PROJECTING = "projecting"  # the name of the loss that brings vectors to the line, as bytes
_AGAIN = (
    " (the same noise comes again: a mechanism that fails for its numbers has to return an output at all noise, however far "
    "out; repair it, then resume with --allow-changed-code, in Python allow_changed_code=True)"
)

_INSTEAD = (
    "; what was drawn stays in the store, and a resume meets the same call again; accepted: the same variates in each call; or "
    "the mechanism without size, as by `def alone(database, rng): return mechanism(database, 1, rng)[0]`, which is called for "
    "one output and needs no look at rows (it learns and draws anew: no test of rows may go on with it); or estimate.tape = false"
)


@dataclass
class Drawer:
    """Draws chunks of a pair's D (side 0) or D′; what trial draws did not show ends the study. by_rows, flat: see `Tape`."""

    context: Context
    pair: int
    side: int
    by_rows: bool
    flat: str
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        self.problem = self.context.problem
        self.law = self.problem.pair_laws[self.pair][self.side]
        self.layout = _trial_layout(self.context, self.law, self.flat) if self.by_rows else []

    def where(self, stage: str, chunk: int | str) -> str:
        """A chunk in words."""
        return f"{stage} chunk {chunk} of {self.problem.describe_law(self.law)}"

    def draw(self, stage: str, chunk: int, size: int, **how: Any) -> tuple[Outputs, Tape]:
        """One chunk's outputs and tape; ChunkError names the chunk that the mechanism fails on."""
        problem, where = self.problem, partial(self.where, stage, chunk)
        how |= {"by_rows": self.by_rows, "flat": self.flat}
        try:
            with drawing(where):
                return draw_tape(
                    problem.sampler, problem.laws[self.law], self.law, stage, chunk, size, problem.schema, **how
                )
        except MechanismError as error:
            raise ChunkError(where(), f"{readable(str(error))}{_AGAIN}") from error

    def take(self, stage: str, chunk: int, size: int, **how: Any) -> tuple[Outputs, Tape]:
        """The same of a chunk that counts: other variates than in trial draws, and declared impossibilities, are refused."""
        outputs, tape = self.draw(stage, chunk, size, **how)
        if tape.shared and self.by_rows:
            raise MechanismError(
                f"{self.where(stage, chunk)}: the mechanism drew {tape.shared} arrays from rng that have no axis of "
                f"{tape.size:,} outputs, which it did not in trial draws{_INSTEAD}"
            )
        if self.by_rows and tape.layout() != self.layout:
            raise MechanismError(
                f"{self.where(stage, chunk)}: the mechanism drew {_drawn(tape.layout())} for each output, and in trial draws "
                f"{_drawn(self.layout)}, so that these do not tell which outputs other entries are of{_INSTEAD}"
            )
        if self.side == 1 and self.problem.declared is not None:
            self.problem.declared.refuse(outputs, self.where(stage, chunk))
        return outputs, tape

    def refuse_kept(self, part: str, chunk: int, outputs: Outputs, how: Mapping[str, Any]) -> None:
        """Draw the chunk again with other noise for every other output: the rest must stay as it is."""
        rows = np.arange(outputs.shape[0]) % 2 == 1
        seed = np.random.SeedSequence([self.problem.sampler.seed, chunk, 1])
        again, _ = self.draw(part, chunk, outputs.shape[0], **how, exchanged=(rows, seed))
        if not keeps_rows(outputs, again, rows):
            instead = _INSTEAD if self.by_rows else ""
            raise MechanismError(f"{part} chunk {chunk}, other than in trial draws: {NOT_OWN}{instead}")

    def refuse_other(self, part: str, prints: dict[int, str], size: int, how: Mapping[str, Any]) -> None:
        """Draw these chunks again in a fresh process: outputs must be those of these fingerprints."""
        problem = self.problem
        given = problem.laws[self.law], self.law, part, size, problem.schema
        call = problem.study.mechanism.call
        is_given = isinstance(call, FunctionCall) or held(str(call)) is not None
        how = {**how, "by_rows": self.by_rows, "flat": self.flat}
        fresh_prints = _fresh_prints(problem.sampler, is_given, list(prints), given, how)
        if fresh_prints not in (None, list(prints.values())):
            raise MechanismError(
                f"{self.where(part, ', '.join(map(str, prints)))}: a fresh process does not draw the same outputs from the same "
                "random tapes; the mechanism keeps something from call to call, or draws from elsewhere than rng; accepted: "
                "neither, or a study without tape"
            )


def _drawn(layout: Layout) -> str:
    return ", ".join(f"{m} {kind}" for kind, m in layout[:8]) + (", …" if len(layout) > 8 else "") or "nothing"


def _trial(context: Context, law: str, size: int, seed: int, **how: Any) -> tuple[Outputs, Tape]:
    """Outputs of a plain tape of a trial's own stream."""
    problem = context.problem
    if "exchanged" in how:
        rows, other = how["exchanged"]
        how["exchanged"] = rows, np.random.SeedSequence([problem.sampler.seed, other])
    how = {"proposal": Proposal.plain(), **how}
    return draw_tape(problem.sampler, problem.laws[law], law, None, seed, size, problem.schema, **how)


def _trial_layout(context: Context, law: str, flat: str) -> Layout:
    """What a mechanism draws of each output, by rows, in trial draws."""
    return _trial(context, law, OUTPUTS, ONE, by_rows=True, flat=flat)[1].layout()


def _fresh_prints(
    sampler: Sampler, is_given: bool, chunks: list[int], given: tuple[Any, ...], how: Mapping[str, Any]
) -> list[str] | None:
    """Fingerprints of chunks as a fresh process draws them, None where none can; is_given: an object, whose modules are sent."""
    function: Any = getattr(sampler.mechanism, "function", None)
    try:
        own = modules_of(function) if is_given else set()
        request = pickled((_prints, (replace(sampler), chunks, given, how), {}), own)
    except Exception:  # whatever a class of someone else raises
        return None
    with NodeExecutor(1) as node:
        try:
            prints: list[str] = node.submit_pickled(request).result()
            return prints
        except ProcessDied as died:
            raise MechanismError(f"the fresh process in which chunks are drawn once more {died.how}") from None
        except HpcdpError as error:
            raise MechanismError(f"in a fresh process {type(error).__name__}: {error}") from None


def _prints(sampler: Sampler, chunks: list[int], given: tuple[Any, ...], how: Mapping[str, Any]) -> list[str]:
    database, law, part, size, schema = given
    return [fingerprint(draw_tape(sampler, database, law, part, chunk, size, schema, **how)[0]) for chunk in chunks]


def learn_levels(context: Context, number: int, recorded: Choice | None = None) -> tuple[State, Choice]:
    """recorded: what was chosen before, if arrays alone are lost: the same directions get bounds."""
    problem, declared = context.problem, context.problem.declared
    e, laws = problem.study.estimate, problem.pair_laws[number]
    way = find_rows([partial(_trial, context, law) for law in dict.fromkeys(laws)], CHUNK, few_of(problem))
    drawers = [Drawer(context, number, side, way.by_rows, way.flat) for side in (0, 1)]
    entered: list[Bools] = []  # what is declared to be impossible for D′, of D's draws in turn

    def take(side: int, proposal: Proposal, size: int, call: int) -> tuple[Outputs, Tape]:
        outputs, tape = drawers[side].take("level", call, size, proposal=proposal)
        if declared is not None and side == 0:
            entered.append(declared.holds(outputs))
        return outputs, tape

    first = [take(side, Proposal.plain(), max(1, e.train // 2), 0) for side in (0, 1)]
    projection, state = None, State()
    if problem.schema.columns not in (None, 1):
        sides = [Side(outputs, outputs.shape[0]) for outputs, _ in first]
        projects = kind_of(e.default_loss).projects  # else what plain draws show to be best
        projecting = e.default_loss if projects else projecting_loss(sides[0], sides[1], np.asarray(e.epsilons))
        projection = _projecting_loss(problem, projecting).fit(*sides).projection()
        state = projection_state(projection) | {_PROJECTING: np.frombuffer(projecting.encode(), np.uint8)}

    def draw(side: int, proposal: Proposal, size: int, call: int) -> tuple[Floats, Tape]:
        outputs, tape = first[side] if call == 0 else take(side, proposal, size, call)
        return _on_line(outputs, projection), tape

    asks = partial(asked_of, problem)
    learned = learn(draw, goal_of(problem), e.train, CHUNK if way.by_rows else FEW, last_of(problem), asks)
    inside = None if declared is None else np.concatenate(entered)[: learned.sides[0].weights.size]
    choice, proposals = choose(problem, learned, way, inside, recorded)
    drawn = proposals[0].state("proposal0.") | proposals[1].state("proposal1.")
    state = {"starts": learned.cells.starts, "classes": learned.classes} | drawn | state
    return state, replace(choice, state=digest_of(state))


def _projecting_loss(problem: Problem, name: str) -> Any:
    e = problem.study.estimate
    return make_loss(name, e.parameters if name == e.default_loss else {}, problem.study.folder)


def _on_line(outputs: Outputs, projection: Projection | None) -> Floats:
    return np.asarray(outputs, np.float64).reshape(-1) if projection is None else projection.coordinate(outputs)


def learned_state(context: Context, series: Series, report: Report) -> State:
    """What was learned of a pair, learned again where arrays are damaged; DamagedRecord where that taught otherwise."""
    key, choice = context.problem.once(tape_keys)[series.pair], series.item[0]
    path = context.layout.counter(key, ())
    with suppress(DamagedError):
        state = read_state(path)
        if digest_of(state) == choice.state:
            return state
    state, learned_choice = learn_levels(context, series.pair, choice)
    if learned_choice != choice:
        record = "fits", record_name("fits-stored", [level_series(context.problem, series.pair)])
        raise DamagedRecord(record, f"{context.layout.relative(path)} is damaged; it is learned again")
    report.found.append(Found(None, [NewFile.of_state(context.layout, path, state)]))
    return state


class Judge:
    """What a pair's draws are tested with, out of what was learned."""

    def __init__(self, problem: Problem, state: State, choice: Choice) -> None:
        self.choice = choice
        self.proposals = [Proposal.restore(state, f"proposal{side}.") for side in (0, 1)]
        projecting = state.get(_PROJECTING, np.zeros(0, np.uint8)).tobytes().decode()
        self._projection = restore_projection(
            state, lambda own: _projecting_loss(problem, projecting).restore_projection(own)
        )
        changes = np.append(True, (state["classes"][:, 1:] != state["classes"][:, :-1]).any(axis=0))
        self._starts = state["starts"][changes]
        self._runs = Lookup.over(self._starts)
        self._codes = state["classes"][:, changes].astype(np.int16)
        self.columns = len(problem.study.epsilons)

    def on_line(self, outputs: Outputs) -> Floats:
        """The place of each output."""
        return np.ascontiguousarray(_on_line(outputs, self._projection))

    def classes(self, places: Floats) -> NDArray[np.int16]:
        """How many ε each output's L̂ exceeds, and −L̂ does, (2, n) int16."""
        return self._codes[:, self._runs.runs(places)]

    def inside(self, places: Floats, direction: int, least: int) -> Ints:
        """Which outputs exceed at least so many ε."""
        inside = self._codes[direction] >= least
        first = np.append(True, inside[1:] != inside[:-1])
        out = np.empty(places.size, np.int64)
        return out[: find_inside(places, self._starts[first], inside[first], out)]

    def cells(self, direction: int, is_upper: bool) -> Cells:
        """The cells of a direction with a bound of their own."""
        bets = self.choice.bets[direction]
        rates = np.asarray(bets.kappas if is_upper else bets.rates, np.float64)
        cutoffs = np.asarray(bets.cutoffs, np.float64) if is_upper else np.full(rates.size, np.inf)
        return Cells(np.asarray(bets.columns, np.int64) + 1, rates, cutoffs)


def chunk_sums(context: Context, test: Judge, series: Series, chunks: range) -> Iterator[dict[str, Any]]:
    """The sums of each chunk from proposals; of plain ones of all together."""
    problem, (choice, side), part = context.problem, series.item, series.kind
    is_plain = part == "leftover"
    drawer = Drawer(context, series.pair, side, choice.by_rows, choice.flat)
    how = {"proposal": test.proposals[side], "is_plain": is_plain}
    total: dict[str, Any] | None = None
    prints: dict[int, str] = {}
    for chunk in chunks:
        outputs, tape = drawer.take(part, chunk, choice.chunk, **how)
        if chunk % LOOKED == 0 and names_code(problem.study):
            drawer.refuse_kept(part, chunk, outputs, how)
            prints[chunk] = fingerprint(outputs)
        if not is_plain:
            yield _sums(test, side, outputs, tape, problem.declared)
        else:
            hits = _hits(test, side, outputs, tape)
            total = hits if total is None else {key: _added(total[key], hits[key]) for key in hits}
    if prints:
        drawer.refuse_other(part, prints, choice.chunk, how)
    if total is not None:
        yield total


def _added(a: Any, b: Any) -> Any:
    return a + b if isinstance(a, int) else [x + y for x, y in zip(a, b, strict=True)]


def _sums(test: Judge, side: int, outputs: Outputs, tape: Tape, declared: Declared | None) -> dict[str, Any]:
    """Sums of weights and squares by direction and ε, and of bets by cell, forward ones of D alone where a set is declared."""
    classes = test.classes(test.on_line(outputs))
    which = np.flatnonzero(classes[0] | classes[1])
    logs, errors = tape.log_weights(which)
    weights, totals = np.exp(logs), {"weights": [], "squares": [], "spreads": [], "logs": []}  # type: ignore[var-annotated]
    strata, sizes = tape.strata(which)
    for direction in (0, 1):
        own = classes[direction][which]
        sums, squares = (_by_stratum(strata, own, v, (sizes.size, test.columns)) for v in (weights, weights * weights))
        totals["weights"].append(sums.sum(axis=0).tolist())
        totals["squares"].append(squares.sum(axis=0).tolist())
        totals["spreads"].append(spread(sums, squares, sizes).tolist())
        is_upper = side != direction
        cells = test.cells(direction, is_upper)
        if declared is not None and direction == 0:
            if is_upper:
                totals["logs"].append([0] * cells.rates.size)
                continue
            own = np.where(declared.holds(outputs[which]), own, 0)
        sums_of = sum_upper if is_upper else sum_lower
        totals["logs"].append(sums_of(logs, errors, own, cells).tolist() if cells.rates.size else [])
    return totals


def _by_stratum(strata: Ints, classes: Ints, values: Floats, shape: tuple[int, int]) -> Floats:
    """Sums of the values in the set of each ε by stratum, (strata, epsilons)."""
    places = strata * (shape[1] + 1) + classes
    sums = np.bincount(places, values, shape[0] * (shape[1] + 1)).reshape(shape[0], -1)
    return np.asarray(sums[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:])


def _hits(test: Judge, side: int, outputs: Outputs, tape: Tape) -> dict[str, Any]:
    """Of a plain chunk: how many lie in a set with a weight that may be above its cut-off, by cell and in any."""
    direction = 1 - side
    bets = test.choice.bets[direction]
    beyond = np.flatnonzero(bets.beyond)
    cells = test.cells(direction, True)
    cells = Cells(cells.least[beyond], cells.rates[beyond], cells.cutoffs[beyond])
    places = test.on_line(outputs)
    which = test.inside(places, direction, int(cells.least.min()))
    if not which.size:  # as of nearly all chunks where δ is tiny
        return {"hits": [0] * beyond.size, "union": 0}
    hits, union = count_leftover(*tape.log_weights(which), test.classes(places[which])[direction], cells)
    return {"hits": hits.tolist(), "union": union}
