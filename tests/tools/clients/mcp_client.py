"""The MCP client of Python against a server on stdio: both ways of beginning, one call of each tool that is named.

argv: a JSON list of [tool, arguments] pairs, then the program and its arguments. Prints one JSON object.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client


def plain(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main():
    calls, program, arguments = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3:]
    parameters = StdioServerParameters(command=program, args=arguments, env=dict(__import__("os").environ))
    said = {"handshake": [], "discovered": []}
    async with stdio_client(parameters) as (reader, writer):
        async with ClientSession(reader, writer) as session:
            greeting = await session.initialize()
            said["version"] = plain(greeting)["protocolVersion"]
            said["tools"] = [tool.name for tool in (await session.list_tools()).tools]
            for tool, given in calls:
                # The client checks the answer against the schema that the server published.
                said["handshake"].append(plain(await session.call_tool(tool, given)))
    async with Client(stdio_client(parameters)) as client:
        for tool, given in calls:
            said["discovered"].append(plain(await client.call_tool(tool, given)))
    print(json.dumps(said))


asyncio.run(main())
