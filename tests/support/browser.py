"""A browser without a window, driven through its own debugging pipe: what it says, what it asks the network for."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = next((found for x in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(x))), None)
_QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --remote-debugging-pipe"
)
#: The pipe is on descriptors 3 and 4. (No function between fork and exec: there are threads.)
_CONNECT = """import fcntl, os, sys
ends = [fcntl.fcntl(int(x), fcntl.F_DUPFD, 100) for x in sys.argv[1:3]]
for end, place in zip(ends, (3, 4)):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])"""


class Browser:
    """One page in Chromium.

    Attributes:
        said: console messages, exceptions and log entries. asked: addresses that the page requested, itself among them.
    """

    def __init__(self, width: int = 1300, height: int = 900) -> None:
        assert CHROMIUM is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()

        argv = [CHROMIUM, *_QUIET.split(), f"--user-data-dir={self._profile.name}", f"--window-size={width},{height}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CONNECT, str(theirs_in), str(theirs_out), *argv],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self._count, self._rest, self._session = 0, b"", None
        self.said: list[str] = []
        self.asked: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._out.close()
        self._in.close()
        self._profile.cleanup()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command's answer."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            found = self._next()
            if found.get("id") == self._count:
                assert "error" not in found, found["error"]
                return dict(found["result"])
            self._note(found.get("method", ""), found.get("params", {}))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = self._in.read1(1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        one, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(one))

    def _note(self, method: str, event: dict[str, Any]) -> None:
        if method == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(x.get("value", x.get("description"))) for x in event["args"]))
        elif method == "Runtime.exceptionThrown":
            self.said.append(str(event["exceptionDetails"].get("exception", {}).get("description", event)))
        elif method == "Log.entryAdded":
            self.said.append(event["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(event["request"]["url"])

    def resize(self, width: int, height: int) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, **features: str) -> None:
        """Media features, e.g. ``prefers_color_scheme="dark"``."""
        wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.send("Emulation.setEmulatedMedia", features=wanted)

    def open(self, file: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.send("Page.navigate", url=file.as_uri())
        self.wait("document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, a promise's once it is there."""
        found = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = 60.0) -> None:
        """Until a condition holds."""
        end = time.monotonic() + seconds
        while not self.evaluate(condition):
            assert time.monotonic() < end, f"{condition} does not come true"
            time.sleep(0.05)

    def picture(self, file: Path, whole: bool = True) -> None:
        """A screenshot, of the whole page or of the window."""
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))
