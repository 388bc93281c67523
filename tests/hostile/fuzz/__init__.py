"""Hostile input of every kind, made from bytes: from random ones, or from those a fuzzer finds to
lead somewhere new.

A target is a parser of strangers' input: the HTTP doors, the gRPC port, and what the client reads.
`python -m tests.hostile.fuzz` runs one of them (see `__main__.py`); `corpus/` keeps the tapes that
between them reach everything that was ever reached.
"""
