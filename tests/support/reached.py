"""A cluster of this machine that commands reach by its address: its certificate is in their environment."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def reached() -> Iterator[str]:
    """The address of a scheduler with two workers, for commands in this process and in others."""
    import dask

    from hpcdp.clusters.scheduler import open_local  # Dask reads its configuration's place when it is imported

    with open_local(2) as place:
        security = place.client.security.get_tls_config_for_role("client")
        names = {"ca-file": security["ca_file"], "client.cert": security["cert"], "client.key": security["key"]}
        certificate = {f"distributed.comm.tls.{name}": text for name, text in names.items()}
        with dask.config.set(certificate), pytest.MonkeyPatch.context() as patch:
            for name, text in certificate.items():
                patch.setenv("DASK_" + name.replace(".", "__").replace("-", "_").upper(), text)
            yield place.client.scheduler.address
