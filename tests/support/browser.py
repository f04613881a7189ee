"""A real Chromium without a window, spoken to by its own protocol (DevTools)."""

import asyncio
import base64
import os
import re
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

_SECONDS = 60.0
_NAMES = ("chromium", "chromium-browser", "google-chrome")

COLOURS = """
(() => {
  const found = [];
  const parts = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, below) => [0, 1, 2].map((i) => top[3] * top[i] + (1 - top[3]) * below[i]);
  const words = (colour) => `rgb(${colour.slice(0, 3).join(", ")})`;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("style, script, noscript, title, desc")) continue;
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    const style = getComputedStyle(element), ink = parts(element.closest("svg") ? style.fill : style.color), layers = [];
    for (let at = element; at && layers.at(-1)?.[3] !== 1; at = at.parentElement) {
      layers.push(parts(getComputedStyle(at).backgroundColor));
    }
    for (let at = element; at; at = at.parentElement) ink[3] *= parseFloat(getComputedStyle(at).opacity);
    const opaque = layers.at(-1)[3] === 1;
    const ground = layers.reverse().reduce((below, layer) => over(layer, below), layers[0]);
    found.push([words(opaque ? over(ink, ground) : ink), opaque ? words(ground) : "none",
                walker.currentNode.data.trim().slice(0, 40), parseFloat(style.fontSize)]);
  }
  return found;
})()
"""
"""Colour, ground, words and size of every piece of text that a page shows, through what is half transparent."""


def colour_of(text: str) -> str:
    """What `COLOURS` says of a colour, as #rrggbb."""
    red, green, blue = map(float, re.findall(r"[\d.]+", text))
    return f"#{round(red):02x}{round(green):02x}{round(blue):02x}"


def find_chromium() -> str:
    """The command; skips where there is none, and fails instead where HPCDP_REQUIRE_CHROMIUM is 1."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None and os.environ.get("HPCDP_REQUIRE_CHROMIUM") == "1":
        pytest.fail("there is no Chromium, and HPCDP_REQUIRE_CHROMIUM is 1")
    if found is None:
        pytest.skip("there is no Chromium")
    return found


class Tab:
    """A tab. events: all that the browser told, as (method, parameters)."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._number = socket, 0
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol, and what it returns."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            found = await self._socket.receive_json(timeout=_SECONDS)
            if found.get("id") == self._number:
                assert "error" not in found, found
                return dict(found["result"])
            self.events.append((found["method"], found["params"]))

    async def open(self, page: str) -> None:
        """Load a page, and wait until it is there with all that it asks for."""
        for domain in ("Page", "Network", "Log", "Runtime"):
            await self.do(f"{domain}.enable")
        before = len(self.events)
        await self.do("Page.navigate", url=page)
        while not any(method == "Page.loadEventFired" for method, _ in self.events[before:]):
            found = await self._socket.receive_json(timeout=_SECONDS)
            self.events.append((found["method"], found["params"]))
        await asyncio.sleep(0.2)
        await self.do("Page.getLayoutMetrics")  # what was told meanwhile comes before its answer

    async def resize(self, width: int, height: int = 800) -> None:
        """As wide as a telephone, or as a screen."""
        await self.do(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    async def width(self) -> float:
        """How wide the page is, in the units of its window."""
        return float((await self.do("Page.getLayoutMetrics"))["cssContentSize"]["width"])

    async def value(self, expression: str) -> Any:
        """Of an expression in the page."""
        return (await self.do("Runtime.evaluate", expression=expression, returnByValue=True))["result"]["value"]

    async def picture(self, path: Path) -> None:
        """The whole page as a .png."""
        found = await self.do("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def requests(self) -> list[str]:
        """Addresses that were asked for."""
        return [told["request"]["url"] for method, told in self.events if method == "Network.requestWillBeSent"]

    def complaints(self) -> list[Any]:
        """What the console shows, of errors, warnings and whatever else."""
        kinds = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [told for method, told in self.events if method in kinds]


def in_tab(use: Callable[[Tab], Awaitable[None]], folder: Path) -> None:
    """Use a tab of a browser of its own, which is ended afterwards. folder: for its profile."""

    async def visit(port: int) -> None:
        base = f"http://127.0.0.1:{port}"
        async with aiohttp.ClientSession() as session:
            async with session.put(f"{base}/json/new?about:blank") as answer:
                address = (await answer.json())["webSocketDebuggerUrl"]
            async with session.ws_connect(address, max_msg_size=0) as socket:
                await use(Tab(socket))

    with _browser(folder) as port:
        asyncio.run(visit(port))


@contextmanager
def _browser(folder: Path) -> Iterator[int]:
    """A browser, and the port on this machine where it listens."""
    words = [
        find_chromium(),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--remote-debugging-port=0",
        "--no-first-run",
    ]
    words += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"]
    with subprocess.Popen(
        [*words, f"--user-data-dir={folder}", "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            active, end = folder / "DevToolsActivePort", time.monotonic() + _SECONDS
            while not (active.is_file() and active.read_text().count("\n") >= 1):
                assert process.poll() is None, "the browser ended"
                assert time.monotonic() < end, "the browser does not listen"
                time.sleep(0.05)
            yield int(active.read_text().splitlines()[0])
        finally:
            process.terminate()
            try:
                process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
