"""Serving an agent: HTTP/1.1, HTTP+JSON, JSON-RPC and gRPC. An endpoint decodes, calls an operation
and encodes; it holds no rules.
"""
