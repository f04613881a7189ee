"""A probability in the released description of a table of two columns; the database says how often each row occurs."""

import itertools
from multiprocessing.pool import ThreadPool

from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.lib import PrivBayes
from serve import serve

PrivBayes.Pool = ThreadPool  # starting processes takes long
ROWS = ["a,c", "a,d", "b,c", "b,d"]
KINDS = {"x": "String", "y": "String"}


def mechanism(database, rng):
    repeated = itertools.chain(*([row] * int(count) for row, count in zip(ROWS, database)))
    with open("table.csv", "w") as table:
        table.write("\n".join(["x,y", *repeated, ""]))
    describer, seed = DataDescriber(), int(rng.integers(2**31))
    describer.describe_dataset_in_correlated_attribute_mode(
        "table.csv",
        k=1,
        epsilon=1.0,
        attribute_to_datatype=KINDS,
        attribute_to_is_categorical=dict.fromkeys(KINDS, True),
        seed=seed,
    )
    child = describer.data_description["bayesian_network"][0][0]
    return describer.data_description["conditional_probabilities"][child]["[0]"]


serve(mechanism)
