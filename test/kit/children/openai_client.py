"""Makes calls with OpenAI's client, as programs do: one JSON object a line in, with what to do, and one out, with what came of it.

The argument is the name of the client's class. A call of OpenAI blocks a thread; one of AsyncOpenAI is a task, which can be cancelled.
"""

import asyncio
import json
import sys

import openai

kind = getattr(openai, sys.argv[1])
tasks: dict[int, asyncio.Task] = {}


async def answer_of(client, call):
    match call["do"]:
        case "complete":
            completion = await call_of(client.chat.completions.create, **call["body"])
            return completion.model_dump(), completion._request_id
        case "list models":
            return [model.model_dump() for model in await models_of(client)], None
        case "get model":
            return (await call_of(client.models.retrieve, call["model"])).model_dump(), None


async def models_of(client):
    if kind is openai.AsyncOpenAI:
        return [model async for model in client.models.list()]
    return await asyncio.to_thread(lambda: list(client.models.list()))


async def call_of(method, *args, **named):
    """The client that blocks does so in a thread."""
    if kind is openai.AsyncOpenAI:
        return await method(*args, **named)
    return await asyncio.to_thread(method, *args, **named)


async def run(call):
    client = kind(base_url=call["base_url"], api_key=call["api_key"])
    try:
        answer, request_id = await answer_of(client, call)
        outcome = {"answer": answer, "requestId": request_id}
    except openai.APIStatusError as error:
        fields = {"status": error.status_code, "code": error.code, "type": error.type}
        outcome = {"error": {"name": type(error).__name__, **fields}}
    except asyncio.CancelledError:
        outcome = {"error": {"name": "CancelledError"}}
    except Exception as error:
        outcome = {"error": {"name": type(error).__name__, "message": str(error)}}
    print(json.dumps({"id": call["id"], **outcome}), flush=True)


async def main():
    while line := await asyncio.to_thread(sys.stdin.readline):
        call = json.loads(line)
        if call["do"] == "cancel":
            tasks[call["id"]].cancel()
        else:
            tasks[call["id"]] = asyncio.create_task(run(call))


asyncio.run(main())
