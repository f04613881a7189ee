"""What workers of a pool say, as bytes on a connection on which other people's code may write too."""

from __future__ import annotations

import os
import pickle
import struct
from typing import Any

_HEAD = struct.Struct(">8sQ")
_MARK = b"\x93hpcdp\r\n"
_PIECE = 1 << 20  # bytes that are read at once
_MOST = 1 << 30  # bytes of a message, of which none has nearly as many


def say(connection: int, message: bytes) -> None:
    """Write a pickled message to a descriptor; OSError where that is not possible."""
    left = memoryview(_HEAD.pack(_MARK, len(message)) + message)
    while left:
        left = left[os.write(connection, left) :]


class Heard:
    """Messages as they arrive at a descriptor."""

    def __init__(self, connection: int) -> None:
        self._connection, self._bytes = connection, bytearray()

    def read(self) -> list[tuple[str, Any]]:
        """What is said and with what, of those that are whole by now, of a descriptor with something to read: waits for no more.

        Raises EOFError at the end, and where anything else was written than messages; OSError where it cannot be read.
        """
        some = os.read(self._connection, _PIECE)
        if not some:
            raise EOFError
        self._bytes += some
        found = []
        while len(self._bytes) >= _HEAD.size:
            mark, size = _HEAD.unpack_from(self._bytes)
            if mark != _MARK or size > _MOST:
                raise EOFError
            if len(self._bytes) < _HEAD.size + size:
                break
            found.append(_unpickled(bytes(self._bytes[_HEAD.size : _HEAD.size + size])))
            del self._bytes[: _HEAD.size + size]
        return found


def _unpickled(message: bytes) -> tuple[str, Any]:
    try:
        what, value = pickle.loads(message)
    except Exception as error:  # of whatever was written there
        raise EOFError from error
    if not isinstance(what, str):
        raise EOFError
    return what, value
