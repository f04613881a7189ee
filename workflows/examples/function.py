"""A mechanism of your own: put your function here."""


def noisy_mean(database, size, rng, *, epsilon):
    """The mean of ages that are clipped to 0 to 100, with Laplace noise, `size` times."""
    ages = database.clip(0.0, 100.0)
    scale = 100.0 / (len(ages) * epsilon)  # of one age that is changed; the number of rows is public
    return ages.mean() + rng.laplace(0.0, scale, size)
