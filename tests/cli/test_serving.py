"""What a serving process is made ready for before it accepts connections."""

from __future__ import annotations

import json
import subprocess
import sys

import httpx

SERVED = """
import gc, json, sys
from streamnorm.cli.serving import serve

before = gc.get_freeze_count()
cycle = []
cycle.append(cycle)
tracked = len(gc.get_objects())
del cycle

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    now = gc.get_freeze_count()
    said = {"enabled": gc.isenabled(), "before": before, "now": now, "tracked": tracked}
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(said).encode()})

serve(app, 0, lambda url: print(url, flush=True))
"""


def test_collections_pass_over_what_was_there_before_the_start() -> None:
    """The collector goes on, and traverses what requests make alone."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        try:
            said = json.loads(httpx.get(process.stdout.readline().strip(), trust_env=False).content)
        finally:
            process.terminate()
    assert said["enabled"]
    assert said["before"] == 0
    # All that is loaded stays: modules, which are more than half of what is tracked.
    assert said["now"] > said["tracked"] / 2
