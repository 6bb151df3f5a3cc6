"""Waiting for what has to come: for the condition itself, however busy the machine, and not for ever."""

import asyncio
import time

PATIENCE = 120  # seconds; only a test that fails waits as long


def wait_for(condition, what="what was waited for", seconds=PATIENCE):
    """Return what a condition gives once that is true; it is asked again and again."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come within {seconds} s")
        time.sleep(0.02)
    return found


async def until(condition, what="what was waited for", seconds=PATIENCE):
    """Let other tasks have their turn until a condition is true; return what it gives."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come within {seconds} s")
        await asyncio.sleep(0.002)
    return found
