"""The server process of these tests: `serve.py AGENT PORT GRPC_PORT DATABASE KEEP_ALIVE_S
GRACE_S`.
"""

import importlib
import sys

from accord.model import Limits


def main(
    agent: str, port: str, grpc_port: str, database: str, keep_alive_s: str, grace_s: str
) -> None:
    limits = Limits(keep_alive_comment_s=float(keep_alive_s))
    served = importlib.import_module(agent).agent
    store = f"sqlite:///{database}"
    served.run(
        port=int(port), grpc_port=int(grpc_port), store=store, limits=limits, grace_s=float(grace_s)
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
