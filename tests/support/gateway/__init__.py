"""Gateways in tests: calls, processes, servers and upstreams."""
