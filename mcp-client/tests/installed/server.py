"""Answers over Streamable HTTP in both eras: `PORT LOG` are its arguments.

What its tools do is appended to LOG, and each request with its status and session.
"""

import sys

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer

PORT, LOG = int(sys.argv[1]), open(sys.argv[2], "a", buffering=1)
server = MCPServer("fixture", log_level="ERROR")


@server.tool()
async def echo(message: str) -> str:
    print("echo", message, file=LOG)
    return message


@server.tool()
async def hang(number: int) -> str:
    print("hang", number, file=LOG)
    try:
        await anyio.sleep_forever()
    finally:
        print("cancelled", number, file=LOG)


@server.resource("fixture://text")
def text() -> str:
    return "This is a text."


@server.prompt()
def ask(topic: str) -> str:
    return f"Say something about {topic}."


app = server.streamable_http_app()


async def overheard(scope, receive, send):
    session = dict(scope.get("headers", [])).get(b"mcp-session-id", b"").decode()

    async def overheard_send(message):
        if message["type"] == "http.response.start":
            print(scope["method"], message["status"], session, file=LOG)
        await send(message)

    await app(scope, receive, overheard_send)


uvicorn.run(overheard, port=PORT, log_level="error")
