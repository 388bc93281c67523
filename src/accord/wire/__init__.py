"""One door per binding. A door decodes, calls an operation, encodes; it holds no rules."""
