"""Requests to a provider of another dialect, and its answers, without I/O.

Transports and gateways translate with it: `requests` turns what a client sent into the request
for its upstream, `answers` turns a whole answer or an error into what the client reads, `url`
and `headers` hold the rules of both.
"""
