"""Attacks on running gateways: each is a function, which every kind of server withstands."""
