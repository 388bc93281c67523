"""Several replicas on one store; README.md says what must always hold, and what catches it."""
