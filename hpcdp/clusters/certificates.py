"""The certificate of one run: whoever has its key may talk to the run's scheduler and workers, nobody else."""

from __future__ import annotations

import datetime
import os
import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from hpcdp._base.files import own_files
from hpcdp.errors import StoreError

if TYPE_CHECKING:
    from distributed import Security

_ROLES = ("client", "scheduler", "worker")
_BACK = datetime.timedelta(days=1)  # clocks of nodes differ; a certificate of the future would fail every job
_VALID = datetime.timedelta(days=365)


def _make() -> tuple[str, str]:
    """A self-signed certificate, valid since yesterday, and its key on the curve P-256: both as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hpcdp")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hpcdp")]), critical=False)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACK)
        .not_valid_after(now + _VALID)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.public_bytes(encoding).decode(), secret.decode()


def _security(certificate: str, key: str) -> Security:
    """Dask's settings that use it in all roles and refuse whoever does not; PEM itself, or paths."""
    from distributed import Security

    pairs = {f"tls_{role}_{kind}": text for role in _ROLES for kind, text in (("cert", certificate), ("key", key))}
    return Security(require_encryption=True, tls_ca_file=certificate, **pairs)


def security_in_memory() -> Security:
    """With a new certificate that is in no file: processes that this one starts get it through their pipes."""
    return _security(*_make())


class Certificate:
    """A certificate and its key, in a folder (0700) that only its user can read, as files (0600)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate, self.key = folder / "certificate.pem", folder / "key.pem"  # self-signed, its own authority

    @classmethod
    def create(cls, folder: Path) -> Certificate:
        """Make a new one; StoreError when the folder exists or when the file system lets others read it."""
        made = cls(folder.absolute())
        try:
            with own_files():
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir(mode=0o700)
                for path, text in zip((made.certificate, made.key), _make(), strict=True):
                    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                    with os.fdopen(handle, "w") as file:
                        file.write(text)
        except OSError as error:
            raise StoreError(f"cannot keep the run's TLS key in {folder}: {error.strerror or error}") from error
        for path in (folder, made.certificate, made.key):
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                made.remove()
                raise StoreError(f"others could read the run's TLS key: the file system of {folder} ignores file modes")
        return made

    @classmethod
    def remove_up_to(cls, folder: Path, generation: int) -> None:
        """Remove the certificates of this and earlier generations: of runs that were killed before they could."""
        for path in folder.glob("*"):
            if path.name.isdecimal() and int(path.name) <= generation:
                cls(path).remove()

    def remove(self) -> None:
        """Delete the files and their folder."""
        for path in (self.certificate, self.key):
            path.unlink(missing_ok=True)
        if self.folder.is_dir():
            self.folder.rmdir()

    def security(self) -> Security:
        """Dask's settings that use it in all roles and refuse whoever does not."""
        return _security(str(self.certificate), str(self.key))

    def environment(self) -> dict[str, str]:
        """Variables by which Dask's own commands, and clients of `tls://` addresses, use it."""
        settings = {"CA_FILE": self.certificate}
        for role in _ROLES:
            settings[f"{role.upper()}__CERT"] = self.certificate
            settings[f"{role.upper()}__KEY"] = self.key
        variables = {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(path) for name, path in settings.items()}
        return {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True", **variables}

    def exports(self) -> str:
        """The same as lines for a shell."""
        return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in self.environment().items())
