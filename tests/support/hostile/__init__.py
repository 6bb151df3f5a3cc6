"""Clients, servers, data owners, strangers and files that misbehave, one module each.

Tests use them, and each runs by hand: ``python -m support.hostile.MODULE --help`` in tests/ lists what it can do. They
speak to loopback addresses only, send a bounded number of requests, and stop by themselves.
"""
