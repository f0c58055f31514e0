#!/usr/bin/env python3
"""test_served.py - the chat page in a browser, as weft serve gives it, with answers of a model.

    tests/server/page/test_served.py WEFT SOURCE [FOLDER]

FOLDER: screenshots go there. Skipped with status 77 as test_page.py is.
"""

import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]
from serving import Server  # noqa: E402
from webdriver import Browser  # noqa: E402

SKIPPED = 77
DONE = "return document.querySelectorAll('.answer').length > 0 && document.getElementById('stop').hidden"

server = browser = shots = None


class Served(unittest.TestCase):
    sizes = (("desktop", (1280, 800), {}), ("phone", (390, 844), {"phone": True}))

    def open(self):
        browser.open(f"http://127.0.0.1:{server.port}/")
        browser.wait("return document.querySelectorAll('#model option').length >= 4")

    def choose(self, model):
        browser.run("""
        const select = document.querySelector('#model');
        select.value = [...select.options].find(x => x.text.includes(arguments[0])).value;
        select.dispatchEvent(new Event('change', {bubbles: true}));
        """, model)

    def send(self, text):
        browser.type("#input", text)
        browser.click("#send")

    def ask(self, text):
        n = browser.count(".answer")
        self.send(text)
        browser.wait(f"return document.querySelectorAll('.answer').length > {n}")
        browser.wait(DONE, seconds=120)
        return browser.text(".answer > .text")[-1]

    def shoot(self, name):
        if shots is not None:
            browser.screenshot(shots / f"{name}.png")

    def active(self):
        return sum(m.get("active", 0) + m.get("waiting", 0) for m in server.ask("/stats")[2]["models"])

    def converse(self, name):
        self.open()
        browser.run("localStorage.clear()")
        self.open()
        first = self.ask("Hello!")
        self.assertGreater(len(first), 5)
        self.assertRegex(browser.text(".stats")[-1], r"\d+ tokens, .*tok/s")
        second = self.ask("And you?")
        self.assertGreater(len(second), 0)
        # What was said before needs not be read again.
        self.assertNotRegex(browser.text(".stats")[-1], r"\b0 of")
        self.shoot(f"{name}-answer")
        browser.click(".answer:last-child [aria-label='Another answer']")
        browser.wait("return [...document.querySelectorAll('.branch')].some(x => x.innerText === '2/2')")
        browser.wait(DONE, seconds=120)
        browser.reload()
        browser.wait("return document.querySelectorAll('.bubble').length === 2")
        self.assertEqual(browser.text(".bubble"), ["Hello!", "And you?"])
        self.assertEqual(browser.text(".answer > .text")[0], first)
        self.assertEqual(browser.complaints(), [])

    def test_conversation(self):
        for name, size, more in self.sizes:
            with self.subTest(name):
                browser.size(*size, **more)
                self.converse(name)

    def test_stop(self):
        """Whoever stops an answer has what came, and the model is free."""
        browser.size(1280, 800)
        self.open()
        browser.run("localStorage.clear()")
        self.open()
        self.choose("slow")
        self.send("Tell me a very long story about a fox called Mia, a bear and a boat.")
        browser.wait("return (document.querySelector('.answer > .text')?.innerText.length || 0) > 20")
        browser.run("document.querySelector('#stop').click()")
        browser.wait(DONE)
        end = time.monotonic() + 20
        while self.active() > 0 and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(self.active(), 0)
        self.assertEqual(browser.complaints(), [])


def main():
    global server, browser, shots  # noqa: PLW0603
    weft, source = sys.argv[1:3]
    shots = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        print("skipped: there is no chromium or no chromedriver; tools/deps.sh page installs both")
        return SKIPPED
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = Server(weft, source)
        browser = Browser(driver, chromium, folder)
        try:
            suite = unittest.defaultTestLoader.loadTestsFromTestCase(Served)
            result = unittest.TextTestRunner(verbosity=1).run(suite)
        finally:
            browser.close()
            code = server.close()
    return 0 if result.wasSuccessful() and result.testsRun > 0 and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
