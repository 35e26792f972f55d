"""Bytes that a gateway is sent by hostile clients and upstreams, and what it makes of them."""
