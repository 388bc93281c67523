"""Agents the server processes of these tests serve."""
