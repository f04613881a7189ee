"""The same with PyTorch and Opacus: a small network, one model a call (needs the extra `torch`).

Opacus computes the gradient of every digit, clips, adds noise and makes the step; the canary enters as one more gradient
beside those of the digits, of norm `clip` in a fixed direction, before Opacus clips them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from training import CANARY, CLASSES, LOT

torch.set_num_threads(1)  # two threads split sums differently, and a model is too small for them


def new_network(hidden: int) -> torch.nn.Sequential:
    """The network before training, always the same; hidden: units between pixels and classes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, CLASSES))


@cache
def canary_direction(hidden: int) -> tuple[torch.Tensor, ...]:
    """The canary's gradient over its norm, one tensor a parameter: any direction, drawn once and for all."""
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(part.shape, generator=generator) for part in new_network(hidden).parameters()]
    norm = torch.sqrt(sum((part**2).sum() for part in parts))
    return tuple(part / norm for part in parts)


def inputs(rows: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixels from 0 to 1, and labels."""
    return torch.tensor(rows[:, :-1] / 16.0, dtype=torch.float32), torch.tensor(rows[:, -1])


def train(
    database: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    noise: float,
    steps: int,
    rate: float,
    clip: float = 1.0,
    hidden: int = 16,
) -> torch.nn.Sequential:
    """Train one model; all its randomness comes from rng."""
    is_canary = database[:, -1] == CANARY
    x, labels = inputs(database[~is_canary])
    canaries = [part.expand(int(is_canary.sum()), *part.shape) * clip for part in canary_direction(hidden)]
    x.requires_grad_()  # Opacus' hooks warn where no input asks for a gradient
    network = new_network(hidden)
    model = GradSampleModule(network, loss_reduction="sum")
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=rate),
        noise_multiplier=noise,
        max_grad_norm=clip,
        expected_batch_size=LOT,
        generator=torch.Generator().manual_seed(int(rng.integers(1 << 63))),
    )
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), labels, reduction="sum").backward()
        for parameter, canary in zip(network.parameters(), canaries, strict=True):
            parameter.grad_sample = torch.cat([parameter.grad_sample, canary])
        optimizer.step()
    return network


def canary_score(
    database: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    noise: float,
    steps: int,
    rate: float,
    clip: float = 1.0,
    hidden: int = 16,
) -> float:
    """The mechanism, one output a call: the score of one trained model, in the units of `training.canary_score`."""
    network = train(database, rng, noise=noise, steps=steps, rate=rate, clip=clip, hidden=hidden)
    parts = zip(network.parameters(), new_network(hidden).parameters(), canary_direction(hidden), strict=True)
    with torch.no_grad():
        moved = sum(float(((before - after).double() * part.double()).sum()) for after, before, part in parts)
    return moved * LOT / (rate * clip * steps)


def accuracy(network: Any, rows: NDArray[np.int64]) -> float:
    """Share of rows that a model labels correctly."""
    x, labels = inputs(rows)
    with torch.no_grad():
        return float((network(x).argmax(1) == labels).double().mean())
