"""A headless Chromium, driven through its debugging port: no package of a driver is needed."""

import asyncio
import base64
import contextlib
import re
import shutil
import tempfile

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
]
SECONDS = 60


class BrowserPage:
    """One page, and what it complained of."""

    def __init__(self, socket):
        self._socket, self._number, self.complaints = socket, 0, []

    async def call(self, method, **given):
        """Call a method of the debugging protocol."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": given})
        while True:
            said = await self._socket.receive_json(timeout=SECONDS)
            if said.get("id") == self._number:
                assert "error" not in said, said
                return said["result"]
            if said.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(said["params"])

    async def run(self, script):
        """Return the value of an expression, which may be a promise."""
        result = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, script):
        """Wait until an expression is true."""
        for _ in range(10 * SECONDS):
            if await self.run(script):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"never {script}: {await self.run('document.body.innerText')} {self.complaints}")

    async def open(self, address):
        await self.call("Page.navigate", url=address)
        await self.until("document.readyState === 'complete'")

    async def reload(self):
        """Load the page again; return when the new one is there, not the old one that goes on until then."""
        await self.run("window.dpmpcOldPage = true; location.reload()")
        await self.until("window.dpmpcOldPage === undefined && document.readyState === 'complete'")

    async def press(self, key, code, text=""):
        """Press a key, as a keyboard does."""
        for kind in ("keyDown", "keyUp"):
            given = {"type": kind, "key": key, "windowsVirtualKeyCode": code}
            await self.call("Input.dispatchKeyEvent", **given, **({"text": text} if text and kind == "keyDown" else {}))

    async def type(self, text):
        await self.call("Input.insertText", text=text)

    async def resize(self, width, height):
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=True
        )

    async def picture(self, path):
        """Take a picture of the whole page."""
        image = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(image["data"]))


@contextlib.asynccontextmanager
async def browser_page():
    """Start a browser with a profile of its own, and end it."""
    folder = tempfile.mkdtemp()
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *FLAGS,
        f"--user-data-dir={folder}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        port = None
        while port is None:
            line = await asyncio.wait_for(process.stderr.readline(), SECONDS)
            assert line, "the browser ended"
            port = re.search(rb"DevTools listening on ws://127\.0\.0\.1:(\d+)/", line)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{int(port[1])}/json/list") as answer:
                (page,) = [one for one in await answer.json() if one["type"] == "page"]
            async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=1 << 26) as socket:
                found = BrowserPage(socket)
                for domain in ("Runtime", "Log", "Page"):
                    await found.call(f"{domain}.enable")
                yield found
    finally:
        process.kill()
        await process.wait()
        shutil.rmtree(folder, ignore_errors=True)


async def violations(page, axe):
    """Return what axe-core, whose script this is, finds wrong in a page for people who do not see or use no mouse."""
    await page.run(f"{axe}; undefined")
    found = await page.run("axe.run().then(result => result.violations)")
    return [f"{one['id']}: {one['help']}: {node['html']}" for one in found for node in one["nodes"]]
