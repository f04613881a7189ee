"""The program's side of hpcdp's protocol: one file that needs Python 3.8 and NumPy 1.17 or newer, and nothing else.

Copy it beside your program (`python -m hpcdp.serve > serve.py` prints it), then:

    from serve import serve

    def mechanism(database, size, rng, *, epsilon):
        ...  # `size` independent outputs, shape (size,) or (size, d); all randomness from rng

    serve(mechanism)

Where a library wants a random state of its own, numpy.random.RandomState(rng.bit_generator) makes one from rng.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

VERSION = 1
LONGEST_ERROR = 300


def serve(mechanism: Callable[..., Any]) -> None:
    """Answer hpcdp's requests until it closes standard input. Call it once, at the end of the program.

    mechanism: `mechanism(database, size, rng, **parameters)`, or without `size`: then it returns one output a call. It
    may have an attribute `each(databases, rng, **parameters)`: one output of each of many databases.
    What the program prints goes to standard error, so that it cannot mix with the answers.
    """
    requests, answers = _take_pipes()
    _write_line(answers, {"hpcdp": VERSION, "each": True})
    while True:
        line = requests.readline()
        if not line:
            return
        request = json.loads(line)
        dtype, shape = np.dtype(request["dtype"]), tuple(request["shape"])
        databases = np.frombuffer(_read(requests, dtype.itemsize * int(np.prod(shape, dtype=np.int64))), dtype)
        try:
            outputs = _to_send(_draw(mechanism, databases.reshape(shape).copy(), request))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # SystemExit and panics of Rust too
            traceback.print_exc()
            text = f"{type(error).__name__}: {error}"[:LONGEST_ERROR] + _place(error)
            _write_line(answers, {"id": request["id"], "error": text})
            continue
        _write_line(answers, {"id": request["id"], "dtype": outputs.dtype.str, "shape": list(outputs.shape)})
        answers.write(outputs.reshape(-1).view(np.uint8).data)
        answers.flush()


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The two pipes of the protocol, out of reach of whatever else reads input or prints, in Python or below it."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    return requests, answers


def _place(error: BaseException) -> str:
    """Where in the program's own folder it was raised, as the end of a message; empty where that does not show."""
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    frames = [(os.path.abspath(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    own = [frame for frame in frames if os.path.dirname(frame[0]) == folder and frame[0] != os.path.abspath(__file__)]
    return f" ({own[-1][0]}, line {own[-1][1]})" if own else ""


def _read(requests: BinaryIO, size: int) -> bytes:
    data = requests.read(size)
    if len(data) < size:
        raise SystemExit("the request ended early")
    return data


def _write_line(answers: BinaryIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message).encode() + b"\n")
    answers.flush()


def _draw(mechanism: Callable[..., Any], database: Any, request: dict[str, Any]) -> Any:
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(request["seed"])))
    parameters = request["parameters"]
    if not request.get("each"):
        return _draw_one(mechanism, database, request["size"], rng, parameters)
    each = getattr(mechanism, "each", None)
    if each is not None:
        return each(database, rng=rng, **parameters)
    return np.concatenate([np.asarray(_draw_one(mechanism, d.copy(), 1, rng, parameters)) for d in database])


def _draw_one(mechanism: Callable[..., Any], database: Any, size: int, rng: Any, parameters: dict[str, Any]) -> Any:
    if "size" in inspect.signature(mechanism).parameters:
        return mechanism(database, size=size, rng=rng, **parameters)
    return [mechanism(database.copy(), rng=rng, **parameters) for _ in range(size)]


def _to_send(outputs: Any) -> Any:
    """The outputs as a contiguous little-endian array of a type that can be sent; strings become UTF-8."""
    array = np.asarray(outputs)
    if array.dtype.kind not in "biufSU":
        raise TypeError(f"outputs are booleans, integers, reals or strings of one shape, not {array.dtype}")
    if array.dtype.kind == "U":
        array = np.char.encode(array, "utf-8")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


if __name__ == "__main__":
    with open(__file__, encoding="utf-8") as _file:
        sys.stdout.write(_file.read())
