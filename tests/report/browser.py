"""Chromium without a screen, driven through its own protocol over a pipe: no network, no driver package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
PATIENCE = 60.0
"""s until an answer is given up."""


def executable() -> str:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("chromium is not on the PATH")
    return found


class Browser:
    """One page. `problems` collects what a page complains about: console errors, exceptions, anything it tried to load."""

    def __init__(self, profile: Path, width: int = 1280, height: int = 900, server: str = "") -> None:
        """`server`: the only address, `http://127.0.0.1:PORT`, that a page may ask for anything."""
        self.allowed = ("file:", "data:", "blob:", "about:", *([server] if server else []))
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        command = [executable(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        command += [f"--window-size={width},{height}", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "about:blank"]

        def pipes() -> None:
            # the browser reads from 3 and writes to 4
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(command, preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session = b"", 0, None
        self.problems: list[str] = []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for end in (self.read_end, self.write_end):
            os.close(end)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters} | ({"sessionId": self.session} if self.session else {})
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            assert time.monotonic() < deadline, "the browser does not answer"
            part = os.read(self.read_end, 1 << 20)
            assert part, "the browser has gone"
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, event: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.problems.append(event["exceptionDetails"].get("exception", {}).get("description") or event["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning"):
            self.problems.append(str(event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            self.problems.append(event["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not event["request"]["url"].startswith(self.allowed):
            self.problems.append(f"asks for {event['request']['url']}")

    def open(self, page: Path | str) -> None:
        self.call("Page.navigate", url=page if isinstance(page, str) else page.absolute().as_uri())
        self.until("document.readyState === 'complete' && !!document.querySelector('main')")

    def run(self, code: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.run(condition):
            assert time.monotonic() < deadline, f"never came true: {condition}"
            time.sleep(0.02)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.mouse("mouseMoved", *start)
        self.mouse("mousePressed", *start, button="left", buttons=1, clickCount=1)
        for k in range(1, 6):
            self.mouse("mouseMoved", *(a + (b - a) * k / 5 for a, b in zip(start, end, strict=True)), button="left", buttons=1)
        self.mouse("mouseReleased", *end, button="left", clickCount=1)

    def box(self, selector: str) -> dict[str, float]:
        """Of an element, in the page."""
        return self.run(f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); return {{x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height}}; }})()")  # fmt: skip

    def screenshot(self, path: Path, selector: str) -> bytes:
        clip = {**self.box(selector), "scale": 1}
        picture = base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"])
        path.write_bytes(picture)
        return picture
