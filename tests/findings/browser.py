"""A headless Chromium over the WebDriver protocol, with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key that the W3C's WebDriver prescribes
SECONDS = 60


class Browser:
    """One window. Raises: OSError, RuntimeError where Chromium does not start."""

    def __init__(self, profile: Path) -> None:
        self._driver = subprocess.Popen(
            [str(DRIVER), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._address = ""
        try:
            self._address = f"http://127.0.0.1:{self._port()}/session"
            options = {"binary": CHROMIUM, "args": [*_OPTIONS, f"--user-data-dir={profile}"]}
            always = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            wanted = {"capabilities": {"alwaysMatch": always}}
            self._address += "/" + self._post("", wanted)["sessionId"]
        except BaseException:
            self.close()
            raise

    def _port(self) -> int:
        for line in self._driver.stdout or ():
            found = re.search(r"successfully on port (\d+)", line)
            if found:
                return int(found[1])
        raise RuntimeError("chromedriver does not start")

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        request = Request(self._address + path, json.dumps(body).encode())
        with urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)["value"]

    def open(self, url: str, width: int = 1200, height: int = 900) -> None:
        """Loads a page in a window of so many CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        command = {"cmd": "Emulation.setDeviceMetricsOverride", "params": size}
        self._post("/goog/cdp/execute", command)
        self._post("/url", {"url": "about:blank"})
        self._post("/url", {"url": url})

    def run(self, script: str) -> Any:
        """What a script returns."""
        return self._post("/execute/sync", {"script": script, "args": []})

    def press(self, selector: str, keys: str) -> None:
        """Types into an element, as a keyboard does."""
        found = self._post("/element", {"using": "css selector", "value": selector})
        self._post(f"/element/{found[_ELEMENT]}/value", {"text": keys})

    def errors(self) -> list[str]:
        """What the console has received since the last call, but for plain messages."""
        lines = self._post("/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, file: Path) -> None:
        with urlopen(f"{self._address}/screenshot", timeout=SECONDS) as answer:
            file.write_bytes(base64.b64decode(json.load(answer)["value"]))

    def close(self) -> None:
        with suppress(OSError, ValueError):  # the session may never have begun
            urlopen(Request(self._address, method="DELETE"), timeout=SECONDS).close()
        self._driver.terminate()
        self._driver.wait(timeout=SECONDS)
        if self._driver.stdout:
            self._driver.stdout.close()
