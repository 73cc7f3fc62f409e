"""A small agent that speaks ACP over its standard input and output, and that can misbehave.

Its first argument says how. Words of a prompt say what a turn does: `ask` asks for a permission, `hang` waits to be
cancelled, `fail` ends with an error. Its sessions are files in the folder that SESSIONS names, so that another process
can go on with them. Each start adds a line to the file that STARTS names.
"""

import json
import os
import signal
import sys
import threading
import uuid

MANNER = sys.argv[1] if len(sys.argv) > 1 else "good"
STORE = os.environ.get("SESSIONS")
if "STARTS" in os.environ:
    with open(os.environ["STARTS"], "a") as file:
        file.write(MANNER + "\n")
lock = threading.Lock()
answers = {}
cancelled = {}


def put(message):
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def update(session, **what):
    put({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": what}})


def say(session, text):
    update(session, sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def ask(session, number, call, title):
    put(
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "session/request_permission",
            "params": {
                "sessionId": session,
                "toolCall": {"toolCallId": call, "title": title, "rawInput": {"command": title}},
                "options": [
                    {"optionId": "always", "name": "Always", "kind": "allow_always"},
                    {"optionId": "once", "name": "Once", "kind": "allow_once"},
                    {"optionId": "no", "name": "No", "kind": "reject_once"},
                ],
            },
        }
    )


def remember(session, cwd, title):
    if STORE:
        with open(os.path.join(STORE, session), "w") as file:
            json.dump({"sessionId": session, "cwd": cwd, "title": title, "updatedAt": "2026-11-16T10:00:00Z"}, file)


def stored():
    rows = []
    for name in sorted(os.listdir(STORE)) if STORE else []:
        with open(os.path.join(STORE, name)) as file:
            rows.append(json.load(file))
    return rows


count = 0
cwds = {}


def turn(id, session, words):
    global count
    flag = cancelled[session] = threading.Event()
    stop = "end_turn"
    if "ask" in words:
        count += 1
        number = 0 if MANNER == "same-ids" else count
        got = answers[number] = threading.Event()
        got.value = None
        ask(session, number, "call-%d" % count, "touch %s" % words.split()[-1])
        if MANNER == "same-ids":
            # A second request with the id of the first: neither can be told by its answer.
            ask(session, number, "call-other", "rm -rf everything")
        got.wait()
        outcome = (got.value or {}).get("outcome", {})
        if outcome.get("optionId") in ("once", "always"):
            open(os.path.join(cwds[session], words.split()[-1]), "w").close()
    if MANNER == "requests":
        for number in range(4):
            wanted = answers["r%d" % number]
            wanted.wait()
            if not wanted.error:
                words = "an offer that was never made: r%d" % number
    if "hang" in words:
        say(session, "hanging")
        flag.wait()
    if flag.is_set():
        stop = "cancelled"
    if "fail" in words:
        return put({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "the model said no"}})
    say(session, "done: " + words)
    update(session, sessionUpdate="usage_update", used=42, size=1000, cost={"amount": 0.25, "currency": "USD"})
    update(session, sessionUpdate="session_info_update", title="about " + words.split()[0])
    put({"jsonrpc": "2.0", "id": id, "result": {"stopReason": stop}})
    if MANNER == "late":
        # Updates after the end, a second end of the same turn, and the end of one that never was.
        say(session, "one more thing")
        update(session, sessionUpdate="tool_call", toolCallId="late", title="late", status="in_progress")
        put({"jsonrpc": "2.0", "id": id, "result": {"stopReason": "refusal"}})
        put({"jsonrpc": "2.0", "id": 999999, "result": {"stopReason": "end_turn"}})
        ask(session, 77, "late", "after the end")


OPTIONS = [
    {
        "id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "small",
        "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}],
    },
    {
        "id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "ask",
        "options": [{"value": "ask", "name": "Ask"}, {"value": "yolo", "name": "Everything"}],
    },
]


def opened():
    if MANNER == "bare":
        return {}
    return {"configOptions": OPTIONS}


def set_option(params):
    for option in OPTIONS:
        if option["id"] == params["configId"]:
            option["currentValue"] = params["value"]
    return {"configOptions": OPTIONS}


def heard(message):
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    reply = lambda result: put({"jsonrpc": "2.0", "id": id, "result": result})
    session = params.get("sessionId")
    if method is None:
        got = answers.get(id)
        if got:
            got.value = message.get("result")
            got.error = message.get("error")
            got.set()
    elif method == "initialize":
        if MANNER == "silent":
            return
        version = 2 if MANNER == "version" else 1
        can = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}, "close": {}}}
        if MANNER == "loads":
            can = {"loadSession": True, "sessionCapabilities": {"list": {}}}
        if MANNER == "bare":
            can = {}
        reply({"protocolVersion": version, "agentInfo": {"name": "scripted", "version": "1.2.3"}, "agentCapabilities": can})
        if MANNER == "half":
            sys.stdout.close()
            os._exit(3)
    elif method == "session/new":
        if MANNER == "no-session":
            return
        session = {"bad-id": "x" * 5000, "no-id": ""}.get(MANNER) if MANNER in ("bad-id", "no-id") else str(uuid.uuid4())
        cwds[session] = params["cwd"]
        if MANNER == "two":
            # Another session on the same line, which is at work and asks for things.
            other = str(uuid.uuid4())
            say(other, "I am another one")
            ask(other, 1, "call-of-the-other", "delete everything")
        reply({"sessionId": session, **opened()})
    elif method in ("session/resume", "session/load"):
        rows = {row["sessionId"]: row for row in stored()}
        if session not in rows:
            return put({"jsonrpc": "2.0", "id": id, "error": {"code": -32002, "message": "no such session"}})
        cwds[session] = params["cwd"]
        if method == "session/load":
            say(session, "what was said before")
        reply(opened())
    elif method == "session/list":
        reply({"sessions": stored()})
    elif method == "session/set_config_option":
        reply(set_option(params))
    elif method == "session/prompt":
        words = params["prompt"][0]["text"]
        remember(session, cwds[session], words)
        if MANNER == "requests":
            # Requests that were never offered, all of which want an answer.
            for number, name in enumerate(["fs/read_text_file", "terminal/create", "made/up", "session/prompt"]):
                answers["r%d" % number] = threading.Event()
                put({"jsonrpc": "2.0", "id": "r%d" % number, "method": name, "params": {"sessionId": session, "path": "/etc/passwd"}})
        if MANNER == "huge":
            # One line of more than 64 MiB, then many of half a megabyte.
            text = "x" * (1 << 20)
            with lock:
                sys.stdout.write('{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":{"sessionUpdate":"agent_message_chunk","content":{"text":"' % session)
                for _ in range(70):
                    sys.stdout.write(text)
                sys.stdout.write('"}}}}\n')
            for _ in range(100):
                say(session, text[: 1 << 19])
        if MANNER == "garbage":
            with lock:
                sys.stdout.buffer.write(b"\xff\xfe garbage\n{]\n[1,2\nnull\n42\n{\"id\":{}}\n" + bytes(range(256)) + b"\n")
                sys.stdout.flush()
        threading.Thread(target=turn, args=(id, session, words), daemon=True).start()
    elif method == "session/cancel":
        if session in cancelled:
            cancelled[session].set()
        for got in answers.values():
            got.set()
    elif method == "session/close":
        reply({})
    elif id is not None:
        put({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})


if MANNER == "endless":
    # Never a line's end.
    while True:
        sys.stdout.write("x" * (1 << 20))
if MANNER == "noise":
    print("Welcome to the agent!\nLoading ...")
if MANNER == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    heard(json.loads(line))
while MANNER == "stubborn":
    signal.pause()
