"""Random databases, for an adversary who does not know the other rows."""


def coins(size, rng, *, rows):
    """`size` independent databases of fair coins, shape (size, rows)."""
    return rng.integers(0, 2, (size, rows)).astype(bool)
