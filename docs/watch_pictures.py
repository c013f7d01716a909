"""Make the pictures of watch.md from runs: `python docs/watch_pictures.py RUN` one, with a second RUN the other.

One run: the head of its page with the curve of success, and below it the newest group whose attempts ended differently.
Two runs: their page, 1400 and 390 pixels wide, light and dark. Needs playwright with a Chromium, and Pillow.
"""

import io
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from agentgym.report.watch.run import FollowedRun
from agentgym.report.watch.server import PageServer, Watch

CHROMIUM = os.environ.get("AGENTGYM_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
IMAGES = Path(__file__).resolve().parent / "images"
SIZES = ((1400, "light"), (1400, "dark"), (390, "light"), (390, "dark"))
PATIENCE = 300_000  # milliseconds, for machines with other work
HEIGHT, GAP, SHOWN = 2920, 24, 0.4429  # pixels, pixels, and what a picture of two runs is scaled to


def opened(browser: Any, address: str, width: int, height: int, scheme: str) -> Any:
    """Return a page of the browser that shows a group."""
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.locator(".detail:not([aria-busy]) .turn").first.wait_for()
    return page


def picture(page: Any, top: float, bottom: float) -> Image.Image:
    """Return what stands between two heights of a page."""
    size = page.viewport_size["width"]
    clip = {"x": 0, "y": top, "width": size, "height": bottom - top}
    return Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip))).convert("RGB")


def pasted(parts: list[Image.Image], down: bool, gap: int = 0) -> Image.Image:
    """Return pictures below one another, or beside one another."""
    wide = [part.width for part in parts]
    tall = [part.height for part in parts]
    space = gap * (len(parts) - 1)
    whole = Image.new("RGB", (max(wide), sum(tall) + space) if down else (sum(wide) + space, max(tall)), "grey")
    place = 0
    for part in parts:
        whole.paste(part, (0, place) if down else (place, 0))
        place += (part.height if down else part.width) + gap
    return whole


def one_run(browser: Any, address: str) -> Image.Image:
    """Return the head of a run's page, and the newest group whose attempts ended differently."""
    page = opened(browser, address, 1120, 900, "light")
    mixed = (
        page.locator("#episodes .row").filter(has=page.locator(".mark.succeeded")).filter(has=page.locator(".mark.failed"))
    )
    mixed.first.click()
    page.locator(".detail:not([aria-busy]) .actions").first.wait_for()
    page.mouse.move(0, 0)
    page.evaluate("scrollTo(0, 0)")  # boxes are counted from the top of what is seen
    curve, groups = page.locator("#curves figure").first.bounding_box(), page.locator("#episodes").bounding_box()
    below = curve["y"] + curve["height"] + 4
    return pasted([picture(page, 0, below), picture(page, groups["y"], groups["y"] + 740)], down=True)


def two_runs(browser: Any, address: str) -> Image.Image:
    """Return the page of two runs in every size and scheme."""
    pages = [opened(browser, address, width, 900, scheme) for width, scheme in SIZES]
    whole = pasted([picture(page, 0, HEIGHT) for page in pages], down=False, gap=GAP)
    return whole.resize((round(whole.width * SHOWN), round(whole.height * SHOWN)), Image.Resampling.LANCZOS)


def main(runs: list[str]) -> None:
    """Serve the page of the runs, and write its picture."""
    server = PageServer(Watch([FollowedRun(Path(run)) for run in runs]), "127.0.0.1", 0, None)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        name, made = ("watch", one_run) if len(runs) == 1 else ("watch_widths", two_runs)
        whole = made(browser, server.address)
        browser.close()
    file = IMAGES / f"{name}.png"
    whole.quantize(255, dither=Image.Dither.NONE).save(file, optimize=True)
    print(f"{file}: {whole.width} by {whole.height} pixels, {file.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
