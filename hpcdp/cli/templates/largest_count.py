"""The mechanism: how many people have the most common diagnosis, with Laplace noise."""


def largest_count(database, size, rng, *, scale):
    """The largest noisy count, `size` times; all randomness comes from rng.

    database: 0 or 1, a row a person, a column a diagnosis. One person changes each count by at most 1, so noise of scale
    1/ε looks sufficient. It is not: all counts of a person fall together, and the largest one shows it.
    """
    counts = database.sum(axis=0)
    return (counts + rng.laplace(0.0, scale, (size, counts.size))).max(axis=1)
