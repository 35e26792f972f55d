"""HTTP without I/O: headers, URLs, content codings, and the hosts of servers.

`headers` lists the headers that a request and a response forward, `urls` checks base URLs and reads
those of requests, `servers` names the server of a host, `codings` decodes compressed bodies, and
`failures` words the reasons for which a request got no response.
"""
