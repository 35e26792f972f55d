"""Fuzzing of a gateway by hostile clients and upstreams."""
