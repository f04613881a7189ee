"""Importance sampling on the random tape: noise drawn from proposals, and outputs weighted by known densities."""
