"""Stress test: five thousand clients leave a gateway at random points of their streams.

    python tests/stress/gateway_cancels.py [--streams 5000] [--server hypercorn]

An upstream, the gateway and its clients talk over loopback.  Clients leave within their
request, before the status, before the first event, in a silent stream, in one that goes on, and
while they do not read.  Afterwards the next request is answered within a second, the upstream
has no open answer, and no task and no file descriptor is left.  99 of 100 upstreams are released
within 200 ms, in which the time that the process waited for a processor does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.gateway.cancelled_streams import cancel_streams
from support.gateway.servers import SERVERS

_PAUSE_S = 0.4
_MAX_NEXT_REQUEST_S = 1.0
_MAX_RELEASE_S = 0.2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", choices=SERVERS, help="default: one after the other")
    options = parser.parse_args()
    logging.getLogger("streamnorm.gateway").setLevel(logging.ERROR)  # a line for each status 503
    failed = False
    for server in [options.server] if options.server else SERVERS:
        left = asyncio.run(cancel_streams(options.streams, options.seed, server, pause_s=_PAUSE_S))
        p50, p99, most = (left.release_at(share) * 1000 for share in (0.5, 0.99, 1.0))
        print(f"{server}: {options.streams:,} streams: {dict(left.endings)}")
        print(f"  {left.answers} open answers, {left.tasks} tasks, {left.descriptors} descriptors")
        print(f"  next request {left.next_request_s * 1000:.0f} ms")
        print(
            f"  {len(left.release_s):,} upstreams released after"
            f" {p50:.1f} ms (p50), {p99:.1f} ms (p99), {most:.1f} ms (most)",
            flush=True,
        )
        failed |= bool(left.answers or left.tasks > 0 or left.descriptors > 0)
        failed |= left.next_request_s > _MAX_NEXT_REQUEST_S or p99 > 1000 * _MAX_RELEASE_S
    print("something is left, or was late" if failed else "nothing is left")
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
