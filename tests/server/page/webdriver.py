"""webdriver.py - as much of WebDriver as the tests of the page need, with the standard library."""

import base64
import http.client
import json
import re
import subprocess
import time

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"enter": "\ue007", "escape": "\ue00c", "up": "\ue013", "shift": "\ue008", "ctrl": "\ue009"}
SECONDS = 20


class Browser:
    def __init__(self, driver, binary, folder):
        self.process = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.port = None
        for line in self.process.stdout:
            match = re.search(r"successfully on port (\d+)", line)
            if match:
                self.port = int(match.group(1))
                break
        if self.port is None:
            raise RuntimeError(f"{driver} did not say its port")
        options = {
            "binary": binary,
            "args": [
                "--headless=new",
                "--no-sandbox",  # tests may run as root, and the pages are ours
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--no-first-run",
                "--window-size=1280,800",
                f"--user-data-dir={folder}",
            ],
        }
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options,
                        "goog:loggingPrefs": {"browser": "ALL"}}  # fmt: skip
        self.session = ""
        value = self.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.session = f"/session/{value['sessionId']}"

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            data = None if method == "GET" else json.dumps(body or {})
            connection.request(method, self.session + path, data)
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{path}: {value['error']}: {value['message'][:500]}")
        return value

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.process.terminate()
            self.process.wait(20)
            self.process.stdout.close()

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def reload(self):
        self.call("POST", "/refresh")

    def run(self, script, *args):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def cdp(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def find(self, selector):
        value = self.call("POST", "/element", {"using": "css selector", "value": selector})
        return f"/element/{value[ELEMENT]}"

    def click(self, selector):
        self.call("POST", self.find(selector) + "/click")

    def type(self, selector, text):
        self.call("POST", self.find(selector) + "/value", {"text": text})

    def keys(self, *names):
        """Pressed together: named keys are held, in order, and let go."""
        down = [{"type": "keyDown", "value": KEYS.get(name, name)} for name in names]
        up = [{"type": "keyUp", "value": KEYS.get(name, name)} for name in reversed(names)]
        actions = [{"type": "key", "id": "keys", "actions": down + up}]
        self.call("POST", "/actions", {"actions": actions})

    def text(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(x => x.innerText)", selector)

    def count(self, selector):
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def wait(self, script, *args, seconds=SECONDS):
        """Until the script returns something true; returns it."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script, *args)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {script}")
            time.sleep(0.03)

    def complaints(self):
        """What the page or its policy complained of since the last call."""
        rows = self.call("POST", "/se/log", {"type": "browser"})
        return [row["message"] for row in rows if row["level"] == "SEVERE"]

    def size(self, width, height, phone=False):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=2 if phone else 1, mobile=phone)  # fmt: skip
        self.cdp("Emulation.setTouchEmulationEnabled", enabled=phone)

    def media(self, **features):
        rows = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.cdp("Emulation.setEmulatedMedia", features=rows)

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))
