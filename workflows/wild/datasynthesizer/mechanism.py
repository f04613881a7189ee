"""A probability in the released description of a table of two columns; the database says how often each row occurs."""

import itertools
import tempfile
from multiprocessing.pool import ThreadPool

from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.lib import PrivBayes
from serve import serve

PrivBayes.Pool = ThreadPool  # starting processes takes long
ROWS = ["a,c", "a,d", "b,c", "b,d"]
KINDS, YES = {"x": "String", "y": "String"}, {"x": True, "y": True}


def mechanism(database, rng):
    repeated = itertools.chain(*([row] * int(count) for row, count in zip(ROWS, database)))
    describer, seed = DataDescriber(), int(rng.integers(2**31))
    given = {"k": 1, "epsilon": 1.0, "attribute_to_datatype": KINDS, "seed": seed}
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as table:
        table.write("\n".join(["x,y", *repeated, ""]))
        table.flush()
        describer.describe_dataset_in_correlated_attribute_mode(table.name, attribute_to_is_categorical=YES, **given)
    child = describer.data_description["bayesian_network"][0][0]
    return describer.data_description["conditional_probabilities"][child]["[0]"]


serve(mechanism)
