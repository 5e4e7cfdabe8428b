"""A real browser without a window, driven by its driver's own protocol: pages, scripts, messages and requests."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars=false"]


def is_here() -> bool:
    return bool(shutil.which("chromedriver")) and bool(shutil.which("chromium") or shutil.which("google-chrome"))


class Browser:
    """One browser that stays open for many pages."""

    def __init__(self, address: str) -> None:
        binary = shutil.which("chromium") or shutil.which("google-chrome")
        options = {
            "goog:chromeOptions": {"binary": binary, "args": ARGUMENTS},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        self._address = f"{address}/session"
        session = self._ask("", {"capabilities": {"alwaysMatch": options}})
        self._address += f"/{session['sessionId']}"

    def open(self, page: Path) -> None:
        self._logs("browser"), self._logs("performance")
        self._ask("/url", {"url": page.as_uri()})

    def run(self, script: str, *given: object) -> object:
        """Run JavaScript in the page, and return what it returns."""
        return self._ask("/execute/sync", {"script": script, "args": list(given)})

    def resize(self, width: int, height: int = 800) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._tell("Emulation.setDeviceMetricsOverride", metrics)

    def show_as(self, *, dark: bool = False, media: str = "screen") -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._tell("Emulation.setEmulatedMedia", {"media": media, "features": features})

    @contextlib.contextmanager
    def without_scripts(self) -> Iterator[None]:
        """Let pages that are opened meanwhile run none of their scripts. Those of `run` do."""
        self._tell("Emulation.setScriptExecutionDisabled", {"value": True})
        try:
            yield
        finally:
            self._tell("Emulation.setScriptExecutionDisabled", {"value": False})

    def save_to(self, folder: Path) -> None:
        self._tell("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})

    def wait_for_file(self, place: Path) -> bytes:
        """Return a file that the browser saves: it has its name once it is whole."""
        for _ in range(400):
            if place.exists():
                return place.read_bytes()
            time.sleep(0.025)
        raise AssertionError(f"{place.name} was not saved: {[each.name for each in place.parent.iterdir()]}")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self._tell("Input.dispatchKeyEvent", {"type": kind, "key": key, "code": key})

    def picture(self) -> bytes:
        return base64.b64decode(str(self._ask("/screenshot", None)))

    def messages(self) -> list[str]:
        """Return what the console said since the page was opened."""
        return [each["message"] for each in self._logs("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for."""
        told = [json.loads(each["message"])["message"] for each in self._logs("performance")]
        return [each["params"]["request"]["url"] for each in told if each["method"] == "Network.requestWillBeSent"]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._send("DELETE", "", None)

    def _logs(self, kind: str) -> list[dict]:
        return self._ask("/se/log", {"type": kind})

    def _tell(self, method: str, given: dict) -> None:
        self._ask("/goog/cdp/execute", {"cmd": method, "params": given})

    def _ask(self, path: str, given: dict | None):
        return self._send("GET" if given is None else "POST", path, given)

    def _send(self, method: str, path: str, given: dict | None):
        data = None if given is None else json.dumps(given).encode()
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None


@contextlib.contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Start the driver and a browser, and end both."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "driver.log").open("wb") as log:
        driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=log, stderr=log)
    try:
        _wait_for(port)
        browser = Browser(f"http://127.0.0.1:{port}")
        try:
            yield browser
        finally:
            browser.close()
    finally:
        driver.terminate()
        driver.wait(timeout=20)


def _wait_for(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError("chromedriver did not answer within 10 s")
