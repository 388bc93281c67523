"""Compile the `.proto` files of this folder: `python -m accord.protocol.protobuf.compile`. Nothing
else needs grpcio-tools.
"""

import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

__all__ = ["compiled"]

HERE = Path(__file__).parent


def compiled() -> bytes:
    """Return the descriptors of every file here."""
    names = sorted(path.name for path in HERE.glob("*.proto"))
    common = files("grpc_tools").joinpath("_proto")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "schema.binpb"
        failed = protoc.main(
            ["protoc", f"-I{HERE}", f"-I{common}", f"--descriptor_set_out={out}", *names]
        )
        if failed:
            raise SystemExit(failed)
        return out.read_bytes()


if __name__ == "__main__":
    (HERE / "schema.binpb").write_bytes(compiled())
