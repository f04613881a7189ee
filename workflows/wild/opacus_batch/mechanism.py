"""How far one step of DP-SGD moves a weight: four rows or three, all of gradient 0, each in the batch with probability 1/2."""

import torch
from opacus import PrivacyEngine
from opacus.accountants import RDPAccountant
from serve import serve
from torch.utils.data import DataLoader, TensorDataset

(accountant := RDPAccountant()).step(noise_multiplier=2.0, sample_rate=0.5)
assert accountant.get_epsilon(0.01) <= 1.0  # what Opacus says


def mechanism(database, rng):
    torch.manual_seed(int(rng.integers(2**31)))
    model, loader = torch.nn.Linear(1, 1, bias=False), DataLoader(TensorDataset(torch.tensor(database)), batch_size=2)
    given = {"module": model, "optimizer": torch.optim.SGD(model.parameters(), lr=1.0), "data_loader": loader}
    private, optimizer, loader = PrivacyEngine().make_private(**given, noise_multiplier=2.0, max_grad_norm=1.0)
    before, (batch,) = float(model.weight), next(iter(loader))
    private(batch.float()).sum().backward()
    optimizer.step()
    return float(model.weight) - before


serve(mechanism)
