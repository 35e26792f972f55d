"""Faults of upstreams in bytes, responses and connections."""
