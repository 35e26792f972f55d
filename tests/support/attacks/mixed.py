"""Attack by thousands of damaged requests and answers: rounds of the fuzzer."""

from __future__ import annotations

from support.attacks.bench import Attack, Bench
from support.gateway.fuzz.rounds import REQUESTS_OF_A_ROUND, fuzzed_gateway

__all__ = ["mixed_requests"]


def mixed_requests(count: int) -> Attack:
    """Return the attack with a number of mixed requests."""

    async def run(bench: Bench) -> str:
        directory = bench.directory / "mixed"
        directory.mkdir()
        async with fuzzed_gateway(bench.server, directory) as gateway:
            for seed in range(-(-count // REQUESTS_OF_A_ROUND)):
                found = await gateway.round(seed)
                assert not found, f"seed {seed}: {'; '.join(found)}"
            answers = dict(gateway.answers.most_common(3))
            return f"{gateway.requests:,} requests, most with {answers}"

    return Attack("mixed requests", run)
