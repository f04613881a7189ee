"""The sequential audit: batches are drawn until a claim is refuted or the budget ends.

Each batch is bet on with what the earlier ones taught, so the false-alarm probability is at most 1 − confidence however
often one looks (Ville's inequality; `hpcdp.notions.betting`). A batch is drawn by tasks, a chunk each, and stays in the
store; what was won is recorded after each batch, so that a later run goes on from there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.doing import at_risk
from hpcdp._base.rounding import at_least
from hpcdp.clusters import TaskExecutor, parse_place
from hpcdp.driver.direct import refuse_unaudited
from hpcdp.driver.driver import opened
from hpcdp.engine.context import open_context
from hpcdp.engine.execute import execute, run_batches
from hpcdp.engine.executors import Executors, Options, refuse_place
from hpcdp.engine.monitor import Monitor
from hpcdp.engine.outcomes import describe_killed, failed
from hpcdp.engine.progress import Progress
from hpcdp.engine.repair import Chunk, identical
from hpcdp.engine.sampling import Draw
from hpcdp.engine.task import Costs, Task
from hpcdp.errors import DamagedError, StudyError
from hpcdp.keys import digest_json
from hpcdp.losses import validate_parameters
from hpcdp.losses._alone import refuse_batch_dependent
from hpcdp.losses.protocol import Loss, Side
from hpcdp.mechanisms import READERS
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.notions.betting import Learner, Rules, Wealth, average, count_cells, play
from hpcdp.notions.box import Lines, lines_of
from hpcdp.results.sequential import ROUNDS, Look, Rounds, SequentialAudit, cells_of, note_audit, round_name
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.lease import Lease
from hpcdp.store.records import commit, has_record, read_record, record_names, set_aside
from hpcdp.store.samples import SAMPLES, DamagedBlock, read_blocks, set_block_aside
from hpcdp.store.stages import Stage
from hpcdp.study.claims import Claim
from hpcdp.study.problem import Problem
from hpcdp.study.stored import changed_code, changed_words
from hpcdp.study.trial_draws import Trial, equals_no_chance

_KEEP = 5e-3  # seconds to store a chunk
_DIGITS = 6


def run_sequential(
    problem: Problem,
    trial: Trial,
    store: Path,
    claim: Claim,
    orientation: str,
    rounds: Rounds,
    options: Options,
    progress: Progress,
    again: str,
) -> SequentialAudit:
    """Draw batches until the claim is refuted for the mean wealth of the pairs, or the budget ends; goes on with a store."""
    refuse_unplayable(problem)
    refuse_place(options)
    where = parse_place(options.cluster)
    with opened(problem, store, options, progress) as (layout, lease, version):
        monitor = Monitor(progress, options.stop, lease.lost.is_set, partial(describe_killed, problem))
        lease.news = monitor.news
        options.stop.check()
        chunks = len(problem.laws) * rounds.chunks(rounds.rounds).start
        seconds = Costs.of(problem, trial).drawing(chunks * rounds.chunk, chunks) + _KEEP * chunks
        with Executors(layout, lease, problem, options, where, monitor, keeps=True) as executors:
            executor = executors.executor(seconds)
            game = _Game(problem, layout, claim, orientation, rounds)
            note_audit(layout, game.key, claim.text, orientation, rounds, lease.generation)
            looks: list[Look] = []
            for number in range(rounds.rounds):
                _draw(game, executor, lease, version, number, monitor, again)
                looks.append(game.look(executor, version, number, monitor, lease.generation))
                progress.note(_words(looks[-1], game.failure))
                if looks[-1].refuted:
                    break
            warnings = changed_words(changed_code(layout, problem.study))
    return SequentialAudit(problem.study, claim.text, orientation, rounds, looks, cells_of(game.wealths), warnings)


def refuse_unplayable(problem: Problem) -> None:
    """Refuse a study whose batches cannot be drawn, or of which there is no audit; StudyError."""
    if problem.sampler.call in READERS:
        raise StudyError(
            f"--sequential: the samples of {problem.sampler.call} are there already, so that none can be saved; "
            "accepted: a mechanism that draws"
        )
    refuse_unaudited(problem.study)


def _words(look: Look, failure: float) -> str:
    said = "refuted" if look.refuted else f"refuted from {1.0 / failure:g} on"
    return f"{look.samples:,} samples per database: evidence {at_least(look.evidence, '.3g')} ({said})"


class _Game:
    """Bets on the batches of all pairs, and their records."""

    def __init__(self, problem: Problem, layout: Layout, claim: Claim, orientation: str, rounds: Rounds) -> None:
        e = problem.study.estimate
        self.problem, self.layout, self.rounds = problem, layout, rounds
        self.stage = Stage.endless(rounds.chunk)  # where batches lie
        self.failure = 1.0 - e.confidence
        self.lines: Lines = lines_of(claim.curve, orientation)  # type: ignore[arg-type]
        loss = validate_parameters(e.default_loss, e.parameters)
        k = getattr(loss, "k", None)  # a start that is long enough for a given number of neighbours
        self.rules = Rules(first=max(Rules().first, k)) if isinstance(k, int) else Rules()
        self.wealths = [Wealth() for _ in problem.pairs]
        self.total = Wealth()
        self.prints: dict[str, Chunk] = {}
        parameters = loss.model_dump(mode="json")
        played = [rounds.chunk, rounds.batch], [e.default_loss, parameters], list(problem.pair_laws)
        self.key = digest_json(
            ["rounds", *played, self.lines.etas.tolist(), self.lines.deltas.tolist(), vars(self.rules)]
        )

    def look(self, executor: TaskExecutor, version: int, number: int, monitor: Monitor, generation: Generation) -> Look:
        """Bet on a batch that is drawn, or read what was won."""
        name = round_name(self.key, number)
        try:
            body = read_record(self.layout, ROUNDS, name)
            self.wealths = [Wealth.from_dict(w) for w in body["wealths"]]
            self.total = Wealth.from_dict(body["total"])
        except DamagedError:  # or not played yet: it is played on the same outputs
            root, wealths = str(self.layout.root.resolve()), tuple(self.wealths)
            given = root, version, self.lines, self.rounds, number, wealths, self.rules
            (self.wealths,) = run_batches(executor, monitor, bet, [given], f"bet-{number}")
            self.total = average(self.total, self.wealths)
            body = {"wealths": [w.to_dict() for w in self.wealths], "total": self.total.to_dict()}
            commit(self.layout, ROUNDS, name, body, generation)
        return Look.of(self.total, self.failure)


def bet(
    root: str, version: int, lines: Lines, rounds: Rounds, number: int, wealths: Sequence[Wealth], rules: Rules
) -> list[Wealth]:
    """What each pair's wealth becomes with a batch: its loss learns from all earlier ones, and from the batch as it goes on."""
    context = open_context(root, version)
    problem, e = context.problem, context.problem.study.estimate
    stage, start = Stage.endless(rounds.chunk), rounds.chunks(number).start

    def read(law: str, chunks: range) -> Outputs:
        parts = list(read_blocks(context.layout, stage, law, problem.schema, chunks)) if chunks else []
        return np.concatenate(parts) if parts else np.empty(problem.schema.shape(0), problem.schema.dtype)

    def check(score: Callable[[Outputs], NDArray[np.float64]], outputs: Outputs, edges: NDArray[np.float64]) -> None:
        """Refuse scores of somebody's class that depend on the block, whatever they win or lose."""
        refuse_batch_dependent(_Bins(score, edges), outputs, str(e.foreign))

    past, batch = ({law: read(law, chunks) for law in problem.laws} for chunks in (range(start), rounds.chunks(number)))
    played: list[Wealth] = []
    for pair, (wealth, (d, d_prime)) in enumerate(zip(wealths, problem.pair_laws, strict=True)):
        learn = _learner(context.loss_of_pair(pair), e.foreign is not None)
        with at_risk(f"estimate.loss {e.default_loss} (learning)"):
            before, now = (past[d], past[d_prime]), (batch[d], batch[d_prime])
            played += play([wealth], [lines], learn, before, now, rules, None if e.foreign is None else check)
    return played


def _learner(loss: Loss, is_foreign: bool) -> Learner:
    """What learns from both sides. is_foreign: scores are rounded, else last bits of equal outputs would decide on cells."""

    def learn(p: Outputs, q: Outputs) -> Callable[[Outputs], NDArray[np.float64]]:
        score = loss.fit(Side(p, p.shape[0]), Side(q, q.shape[0])).score
        return (lambda outputs: np.round(score(outputs), _DIGITS)) if is_foreign else score

    return learn


@dataclass(frozen=True, eq=False)
class _Bins:
    """What a bet counts: outputs by the cells between its edges."""

    score: Callable[[Outputs], NDArray[np.float64]]
    edges: NDArray[np.float64]

    def count(self, outputs: Outputs) -> NDArray[np.int64]:
        return count_cells(self.edges, self.score(outputs))

    def state(self) -> None:
        return None


def _draw(
    game: _Game, executor: TaskExecutor, lease: Lease, version: int, number: int, monitor: Monitor, again: str
) -> None:
    """Have the chunks of a round drawn that are not there, or damaged; refuse those that chance cannot make equal."""
    problem, layout, stage = game.problem, game.layout, game.stage
    for law in problem.laws:
        for chunk in game.rounds.chunks(number):
            try:
                deque(read_blocks(layout, stage, law, problem.schema, range(chunk, chunk + 1)), 0)
            except DamagedBlock as error:
                if has_record(layout, *error.record):
                    monitor.note(f"damaged: {error}; it is drawn again")
                    set_block_aside(layout, *error.record)
    there = record_names(layout, SAMPLES)
    tasks = [
        Task(f"round-{number}-{law}-{chunk}", Draw(((law, stage, chunk),)), (), 1, 1.0)
        for law in problem.laws
        for chunk in game.rounds.chunks(number)
        if stage.name_of(law, chunk) not in there
    ]
    if tasks:
        monitor.begin(f"round {number + 1}", tasks)
        lease.beat()
        outcome = execute(executor, str(layout.root.resolve()), version, lease.generation, tasks, monitor)
        if outcome.failures:
            raise failed(outcome.failures, again)
    _refuse_equal_chunks(game, number, again)


def _refuse_equal_chunks(game: _Game, number: int, again: str) -> None:
    """Compare the chunks of a round, of all laws, with each other and with all before; no bet on equal ones would be fair."""
    problem, layout, stage = game.problem, game.layout, game.stage
    for law in problem.laws:
        for chunk in game.rounds.chunks(number):
            (text,) = read_record(layout, SAMPLES, stage.name_of(law, chunk))["fingerprints"]
            new = (law, stage.name, chunk)
            old = game.prints.setdefault(text, new)
            if old == new:
                continue
            (outputs,) = read_blocks(layout, stage, law, problem.schema, range(chunk, chunk + 1))
            if equals_no_chance(outputs):
                for name in record_names(layout, SAMPLES):  # what was won is played again on batches that stay
                    if name.split("-")[0] in (old[0], law) and name.split("-")[1] == stage.name:
                        set_block_aside(layout, SAMPLES, name)
                for name in record_names(layout, ROUNDS):
                    set_aside(layout, ROUNDS, name)
                raise identical(problem, old, new, f"{again} --allow-changed-code")
