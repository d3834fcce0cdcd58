"""A headless Chromium, driven over the DevTools protocol through two pipes: no package and no port is needed.

Protocol: https://chromedevtools.github.io/devtools-protocol/; messages are JSON that ends with a zero byte.
"""

import base64
import itertools
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")

KEYS = {
    "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39, "Enter": 13, "Escape": 27, "Home": 36, "End": 35,
    "Tab": 9, "PageDown": 34, "PageUp": 33,
}  # fmt: skip


def find() -> str | None:
    """The browser to test with: `TORCHTPU_BROWSER`, or the first that is installed."""
    chosen = os.environ.get("TORCHTPU_BROWSER")
    return chosen or next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page of a browser. What the page says on its console that is an error is kept in `complaints`."""

    def __init__(self, path: str, timeout: float = 60) -> None:
        self.timeout = timeout
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._ids = itertools.count(1)
        self._events: list[dict[str, Any]] = []
        self._buffer = b""
        self._profile = tempfile.TemporaryDirectory(prefix="torchtpu-browser-", ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._process = self._start(path, theirs_in, theirs_out)
        os.close(theirs_in)
        os.close(theirs_out)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _start(self, path: str, theirs_in: int, theirs_out: int) -> "subprocess.Popen[bytes]":
        # The protocol is spoken on descriptors 3 and 4; a shell puts them there. Root has no sandbox to run in.
        command = [path, "--headless", "--remote-debugging-pipe", f"--user-data-dir={self._profile.name}"]
        command += ["--no-first-run", "--disable-gpu", "--hide-scrollbars", "--no-sandbox", "--disable-dev-shm-usage"]
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        return subprocess.Popen(
            ["bash", "-c", script, "browser", *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._out)  # The end of its input ends the browser.
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        self._profile.cleanup()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What a method of the protocol returns; raises `RuntimeError` with the browser's words if it fails."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                break
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + self.timeout
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"the browser said nothing for {self.timeout} s")
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError(f"the browser ended with status {self._process.wait()}")
            self._buffer += piece
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:2000])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"])[:2000])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(json.dumps(params["entry"])[:2000])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        if method:
            self._events.append(message)

    def open(self, path: pathlib.Path, fragment: str = "") -> None:
        """Opens a file and waits until it is drawn."""
        # By way of an empty page, since another fragment of the same page would not load it.
        for url in ("about:blank", path.as_uri() + fragment):
            self._events.clear()
            self.call("Page.navigate", url=url)
            while not any(event["method"] == "Page.loadEventFired" for event in self._events):
                self._read()
        self.settle()

    def eval(self, expression: str) -> Any:
        """The value of an expression of the page's own script, awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def settle(self) -> None:
        """Waits for two frames, after which what was asked for is drawn."""
        self.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def key(self, name: str) -> None:
        """Presses a key as a person does."""
        # Of characters that are no letter, the code would be another key's: that of "." is Delete's.
        code = KEYS[name] if name in KEYS else ord(name.upper()) if name.isalnum() else 0
        typed = {"text": "\r"} if name == "Enter" else {} if name in KEYS else {"text": name}
        pressed = {"key": name, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **pressed, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)
        self.settle()

    def type(self, text: str) -> None:
        """Types characters into what has the focus."""
        for character in text:
            self.call("Input.insertText", text=character)
        self.settle()

    def click(self, selector: str) -> None:
        """Clicks in the middle of the first element that matches; raises `TimeoutError` if it never lies still."""
        # What the page draws as it scrolls may move the element: it has to lie still, with nothing before it.
        place = (
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center', behavior: 'instant'});"
            " const b = e.getBoundingClientRect(), at = [b.x + b.width / 2, b.y + b.height / 2];"
            " return e.contains(document.elementFromPoint(...at)) ? at : null; })()"
        )
        deadline = time.monotonic() + self.timeout
        before, at = None, self.eval(place)
        while at is None or at != before:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{selector} lies nowhere where it can be clicked")
            self.settle()
            before, at = at, self.eval(place)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)
        self.settle()

    def media(self, width: int = 1440, height: int = 1000, dark: bool = False) -> None:
        """Sets the window's size, and light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.settle()

    def screenshot(self, path: pathlib.Path, whole: bool = False) -> None:
        """Writes what is seen, or the whole page, as PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def pdf(self, path: pathlib.Path) -> None:
        """Prints the page."""
        data = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"]
        path.write_bytes(base64.b64decode(data))
