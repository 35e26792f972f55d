"""HTTP transports that record a client's exchanges or replay recordings to it.

`httpx` and `httpx2` serve the clients of these packages, with the same class names in both:

    from streamnorm.transports.httpx2 import RecordingTransport, ReplayTransport

`recorded` and `replayed` implement them for both, in terms of the classes that `family`
collects; `inflating` decodes a body that arrives compressed.
"""
