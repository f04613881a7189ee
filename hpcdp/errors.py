"""The exceptions that hpcdp raises on purpose; the exit codes of its commands."""

DONE, FAILED, WRONG, VIOLATED, INTERRUPTED = 0, 1, 2, 3, 130  # exit codes; wrong is the command or the study


class HpcdpError(Exception):
    """Root of all errors that hpcdp raises on purpose; its message is one readable line."""


class StudyError(HpcdpError, ValueError):
    """The study, a claim or a command is wrong; nothing was run."""


class MechanismError(HpcdpError, RuntimeError):
    """The mechanism failed, or its output has a shape or type that cannot be used."""


class UnansweredError(MechanismError):
    """The mechanism did not answer in time; asking it again would take as long again."""


class StoreError(HpcdpError, RuntimeError):
    """The store cannot be opened, read, written, or does not belong to the study."""


class DamagedError(StoreError):
    """Bytes in the store do not match their recorded checksum, or a record is missing."""


class LeaseError(StoreError):
    """Another run holds the store."""


class PlaceError(StoreError):
    """The place where tasks run is gone or has no workers; the store can be resumed."""
