"""Faults of upstreams: bytes, responses and connections."""
