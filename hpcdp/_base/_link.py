"""Messages between the processes of a node executor: pickles on a socket on which other people's code may write too."""

from __future__ import annotations

import os
import pickle
import select
import socket
import struct
import threading
from collections import deque
from contextlib import suppress
from typing import Any

_HEAD = struct.Struct(">8sQ")
_MARK = b"\x93hpcdp\r\n"
_PIECE = 1 << 20  # bytes that are read at once
_MOST = 1 << 34  # bytes of a message, of which none has nearly as many


class Link:
    """One end of a connection. Threads may send at the same time; one reads."""

    def __init__(self, end: socket.socket) -> None:
        self._socket, self._lock = end, threading.Lock()
        self._bytes, self._messages = bytearray(), deque[tuple[Any, ...]]()  # that were read

    def fileno(self) -> int:
        """The descriptor, to wait for with others."""
        return self._socket.fileno()

    def send(self, *message: Any) -> None:
        """Write a message; OSError where the other end is gone."""
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        with self._lock:
            self._socket.sendall(_HEAD.pack(_MARK, len(data)))
            self._socket.sendall(data)

    def wait(self) -> tuple[Any, ...]:
        """The next message alone, however long it takes; EOFError at the end."""
        while not self._messages:
            self._fill()
        return self._messages.popleft()

    def read(self) -> list[tuple[Any, ...]]:
        """The messages that are whole by now, waiting for none; EOFError at the end, and where anything else was written."""
        if self.has_words():
            self._fill()
        messages = [*self._messages]
        self._messages.clear()
        return messages

    def has_words(self) -> bool:
        """Whether there is something to read now, which may be the end."""
        looking = select.poll()  # not select(), which knows no descriptor above 1,023
        looking.register(self._socket, select.POLLIN)
        return bool(looking.poll(0))

    def close(self) -> None:
        """Give up this end in this process."""
        self._socket.close()

    def end(self) -> None:
        """End the connection, also for threads and processes that wait at either end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.close()

    def _fill(self) -> None:
        """Read some bytes, and the messages that are whole by then."""
        try:
            received = os.read(self._socket.fileno(), _PIECE)
        except OSError:  # the other end is gone, or this one
            received = b""
        if not received:
            raise EOFError
        self._bytes += received
        while len(self._bytes) >= _HEAD.size:
            mark, size = _HEAD.unpack_from(self._bytes)
            if mark != _MARK or size > _MOST:
                raise EOFError
            if len(self._bytes) < _HEAD.size + size:
                return
            try:
                self._messages.append(tuple(pickle.loads(self._bytes[_HEAD.size : _HEAD.size + size])))
            except Exception as error:  # of whatever was written there
                raise EOFError from error
            del self._bytes[: _HEAD.size + size]
