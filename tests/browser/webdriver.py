"""A small client of the WebDriver protocol for chromedriver, in Python's standard library alone."""

import base64
import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for a reference
SHORT = "/tmp"  # the browser has sockets there, whose paths may have 107 characters
KEYS = {
    "left": "\ue012", "up": "\ue013", "right": "\ue014", "down": "\ue015", "home": "\ue011",
    "end": "\ue010", "escape": "\ue00c", "enter": "\ue007", "tab": "\ue004", "shift": "\ue008",
}  # fmt: skip


class DriverError(Exception):
    pass


def find_browser():
    """The paths of (browser, driver), or None if one is missing."""
    browsers = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, browsers)), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Driver:
    """A chromedriver process; sessions share it."""

    def __init__(self, path):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [path, f"--port={self.port}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": SHORT},
        )
        self._wait()

    def _wait(self):
        for _ in range(300):
            try:
                if self.call("GET", "/status")["ready"]:
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.close()
        raise DriverError("chromedriver does not answer")

    def call(self, method, path, body=None, timeout=90):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            text = None if method == "GET" else json.dumps(body or {})
            connection.request(method, path, text, {"Content-Type": "application/json"})
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise DriverError(f"{value['error']}: {value.get('message', '').splitlines()[0]}")
        return value

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Browser:
    """One window. Logs what the page prints and requests."""

    def __init__(self, driver, binary, width=1280, height=900, dark=False):
        self.driver = driver
        self.profile = tempfile.mkdtemp(prefix="neap-browser-", dir=SHORT)
        arguments = [
            "--headless=new",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
            "--disable-background-networking",
            "--disable-component-update",
            f"--user-data-dir={self.profile}",
            f"--window-size={width},{height}",
        ]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            arguments.append("--no-sandbox")
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        options = {"binary": binary, "args": arguments}
        options["perfLoggingPrefs"] = {"enableNetwork": True, "enablePage": False}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        try:
            made = driver.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        except Exception:
            shutil.rmtree(self.profile, ignore_errors=True)
            raise
        self.base = "/session/" + made["sessionId"]

    def close(self):
        try:
            self.driver.call("DELETE", self.base)
        finally:
            shutil.rmtree(self.profile, ignore_errors=True)

    def _post(self, path, body=None):
        return self.driver.call("POST", self.base + path, body)

    def open(self, path):
        self._post("/url", {"url": "file://" + os.path.abspath(path)})

    def run(self, script, *arguments):
        """The value that a function body of JavaScript returns."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script, *arguments):
        """As run, for a script that calls its last argument with the value."""
        return self._post("/execute/async", {"script": script, "args": list(arguments)})

    def wait(self, script, *arguments, seconds=20):
        """Waits until the script returns something true, and returns that."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script, *arguments)
            if value:
                return value
            if time.monotonic() > end:
                raise DriverError(f"after {seconds} s still not true: {script}")
            time.sleep(0.05)

    def settle(self):
        """Waits until the page has drawn what was asked for."""
        self.run_async(
            "const done = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)));"
        )

    def find(self, selector):
        return self._post("/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.box(selector)  # scrolls there at once; the page's own scrolling is smooth
        self._post(f"/element/{self.find(selector)}/click")
        self.settle()

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def data(self, selector, name):
        script = "return document.querySelector(arguments[0]).dataset[arguments[1]]"
        return self.run(script, selector, name)

    def type(self, selector, text):
        self._post(f"/element/{self.find(selector)}/value", {"text": text})
        self.settle()

    def keys(self, *names):
        """Presses keys one after the other where the focus is; "shift+left" holds shift."""
        actions = []
        for name in names:
            parts = [KEYS.get(part, part) for part in name.split("+")] if len(name) > 1 else [name]
            actions += [{"type": "keyDown", "value": part} for part in parts]
            actions += [{"type": "keyUp", "value": part} for part in reversed(parts)]
        self._post("/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})
        self.settle()

    def focus(self, selector):
        self.run("document.querySelector(arguments[0]).focus()", selector)

    def box(self, selector):
        """The element's rectangle in the window, once scrolled into view: x, y, width, height."""
        return self.run(
            "const e = document.querySelector(arguments[0]);"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]",
            selector,
        )

    def _pointer(self, actions):
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}}
        self._post("/actions", {"actions": [{**mouse, "actions": actions}]})
        self.settle()

    def hover(self, selector, x, y):
        """Moves the mouse to a fraction (x, y) of the element."""
        self._pointer([self._to(selector, x, y)])

    def click_at(self, selector, x, y):
        button = [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self._pointer([self._to(selector, x, y), *button])

    def drag(self, selector, x0, x1, y=0.5):
        self._pointer(
            [
                self._to(selector, x0, y),
                {"type": "pointerDown", "button": 0},
                self._to(selector, (x0 + x1) / 2, y),
                self._to(selector, x1, y),
                {"type": "pointerUp", "button": 0},
            ]
        )

    def _to(self, selector, x, y):
        left, top, width, height = self.box(selector)
        at = {"x": round(left + x * width), "y": round(top + y * height)}
        return {"type": "pointerMove", "duration": 0, "origin": "viewport", **at}

    def wheel(self, selector, x, delta):
        left, top, width, height = self.box(selector)
        at = {"x": round(left + x * width), "y": round(top + height / 2)}
        scroll = {"type": "scroll", **at, "deltaX": 0, "deltaY": delta, "duration": 0}
        self._post("/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [scroll]}]})
        self.settle()

    def resize(self, width, height):
        self._post("/window/rect", {"width": width, "height": height})
        self.settle()

    def cdp(self, command, **parameters):
        """A command of Chromium's own protocol."""
        return self._post("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def print(self):
        """The page printed, as PDF."""
        return base64.b64decode(self._post("/print"))

    def screenshot(self):
        """A PNG, in base64."""
        return self.driver.call("GET", self.base + "/screenshot")

    def console(self):
        """What the page printed since the last call: ["level: text"]."""
        entries = self._post("/se/log", {"type": "browser"})
        return [f"{entry['level']}: {entry['message']}" for entry in entries]

    def requests(self):
        """The addresses requested since the last call."""
        found = []
        for entry in self._post("/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found
