"""The mechanism: the mean of one column, with Laplace noise. Put your own function here."""


def noisy_mean(database, size, rng, *, lower, upper, count, epsilon):
    """`size` independent outputs for one database: an array of shape (size,), or (size, d) for vectors.

    database: a NumPy array, a row a person. rng: a numpy.random.Generator, from which ALL randomness must come.
    What follows the star are the study's mechanism.parameters. A function without `size` returns one output a call.
    """
    total = database.clip(lower, upper).sum()
    scale = (upper - lower) / count / epsilon  # of the noise: sensitivity / ε. Halve it, and the fault is found by:
    # hpcdp run function.toml --store runs/halved.zarr (a store keeps what was drawn: other code, another store)
    return total / count + rng.laplace(0.0, scale, size)
