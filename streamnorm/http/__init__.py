"""HTTP without I/O: headers, URLs, content codings, and server names.

`headers` lists the headers that a request and a response forward, and words why a request got no
response.  `urls` checks base URLs, reads those of requests and names the server of a host;
`codings` decodes compressed bodies.
"""
