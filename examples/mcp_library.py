"""An MCP server with one tool. `accord serve examples/mcp_library.py` makes an agent of it."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("Library")


@server.tool()
def search(title: str) -> list[str]:
    """Search the shelves."""
    return [book for book in ["Middlemarch", "Moby-Dick"] if title.lower() in book.lower()]


if __name__ == "__main__":
    server.run()
