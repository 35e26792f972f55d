"""Test support for gateways: calls, processes, servers and upstreams."""
