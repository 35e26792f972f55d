"""HTTP transports that record, replay or translate a client's exchanges.

`httpx` and `httpx2` serve the clients of these packages, with the same class names in both:

    from streamnorm.transports.httpx2 import RecordingTransport, TranscodingTransport

`recorded` and `transcoded` implement them for both, in terms of the classes that `family` collects.
"""
