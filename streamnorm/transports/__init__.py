"""Transports that stand in a client's place of the network: to record, and to replay.

`httpx` and `httpx2` are the two families of clients, with the same class names in both:

    from streamnorm.transports.httpx2 import RecordingTransport, ReplayTransport

`family` says in what the two differ, `recorded` and `replayed` do the work for both, and
`inflating` undoes a content coding that was not asked for.
"""
