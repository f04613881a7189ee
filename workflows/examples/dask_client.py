"""Run a study on a Dask client of your own and print its spectrum: python workflows/examples/dask_client.py [STORE]

The client here is one of this machine. A client of any cluster will do whose workers have hpcdp and see the store.
"""

import sys

from dask.distributed import Client

import hpcdp

STUDY = {
    "study": {"name": "dask_client", "seed": 20240520},
    "mechanism": {"call": "bounded_sum", "parameters": {"lower": 0.0, "upper": 1.0, "epsilon": 1.0}},
    "pairs": {"relative": {"databases": [[0.2, 0.9, 0.4], [0.7, 0.1, 0.3]], "relation": "edit", "values": [0.0, 1.0]}},
    "estimate": {
        "train": 100_000,
        "test": 100_000,
        "epsilons": {"start": 0.0, "stop": 1.0, "count": 6},
        "keep": "none",
    },
}


def main(store: str) -> None:
    """Run the study into the store, or go on with it, and print one line for each ε."""
    study = hpcdp.Study.from_dict(STUDY)
    # one thread a worker: mechanisms are Python functions, which hold the interpreter's lock
    # and TLS: other users of this machine can reach the ports, and whoever may talk to Dask may run code
    with Client(n_workers=2, threads_per_worker=1, security=True, dashboard_address="127.0.0.1:0") as client:
        result = hpcdp.run(study, store, client=client)
    print(f"{result.name}: {len(result.pairs)} pairs, bounds hold together at {100 * result.confidence:g} %")
    for row in result.spectrum():
        where = f"pair {row['pair']}, {row['direction']}" if row["delta"] > 0 else "-"
        print(f"ε = {row['epsilon']:.1f}   δ ≥ {row['lower']:.5f} (certified)   δ̂ = {row['delta']:.5f}   {where}")


if __name__ == "__main__":  # worker processes import this file
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/dask_client.zarr")
