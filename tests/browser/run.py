#!/usr/bin/env python3
"""Opens reports of `neap` in a browser and uses them as a reader would.

    tests/browser/run.py [NEAP] [TEST...]

NEAP is the command to test, $NEAP_COMMAND by default. Prints a line for each test and finally
"N passed, M failed". Where there is no chromium or chromedriver, says so and succeeds.
"""

import os
import shutil
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
import cases_page  # noqa: E402
import cases_size  # noqa: E402
import cases_use  # noqa: E402
from reports import Reports  # noqa: E402
from webdriver import Browser, Driver, DriverError, find_browser  # noqa: E402

SKIPPED = "skipped: no chromium or chromedriver; apt-get install chromium chromium-driver"
MODULES = (cases_page, cases_use, cases_size)


class Context:
    """What a test gets: the reports, and a browser in which to open them."""

    def __init__(self, driver, binary, reports):
        self.driver = driver
        self.binary = binary
        self.reports = reports
        self.browsers = {}

    def browser(self, **settings):
        key = tuple(sorted(settings.items()))
        if key not in self.browsers:
            self.browsers[key] = Browser(self.driver, self.binary, **settings)
        return self.browsers[key]

    def open(self, path, **settings):
        """Opens a report and waits until it is drawn; earlier logs are dropped."""
        browser = self.browser(**settings)
        browser.open("/dev/null")
        browser.console()
        browser.requests()
        browser.open(path)
        browser.wait("return document.body && document.body.dataset.ready", seconds=60)
        browser.settle()
        return browser

    def close(self):
        for browser in self.browsers.values():
            browser.close()


def tests(names):
    for module in MODULES:
        for name, function in vars(module).items():
            if name.startswith("test_") and (not names or name.removeprefix("test_") in names):
                yield name.removeprefix("test_"), function


def run(context, name, function):
    """True if the test passes."""
    began = time.monotonic()
    try:
        note = function(context)
    except (AssertionError, DriverError, OSError) as error:
        print(f"FAILED  {name}: {error}")
        for line in traceback.format_exc().splitlines()[-6:-1]:
            print("        " + line.strip())
        return False
    seconds = time.monotonic() - began
    print(f"ok      {name}{': ' + note if note else ''} ({seconds:.1f} s)", flush=True)
    return True


def main():
    neap = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NEAP_COMMAND")
    if not neap or not shutil.which(neap):
        print("usage: tests/browser/run.py NEAP [TEST...]")
        return 2
    found = find_browser()
    if not found:
        print(SKIPPED)
        return 0
    binary, path = found
    folder = tempfile.mkdtemp(prefix="neap-reports-")
    driver = context = None
    passed = failed = 0
    try:
        driver = Driver(path)
        context = Context(driver, binary, Reports(os.path.abspath(shutil.which(neap)), folder))
        context.browser()  # where the browser itself cannot start, that is not the report's fault
    except (DriverError, OSError) as error:
        print(f"{SKIPPED} ({error})")
        names = None
    else:
        names = list(tests(sys.argv[2:]))
        for name, function in names:
            if run(context, name, function):
                passed += 1
            else:
                failed += 1
    finally:
        if context:
            context.close()
        if driver:
            driver.close()
        shutil.rmtree(folder, ignore_errors=True)
    if names is not None:
        print(f"{passed} passed, {failed} failed")
    return 1 if failed or names == [] else 0


if __name__ == "__main__":
    sys.exit(main())
