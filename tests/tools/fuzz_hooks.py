"""What schemathesis sends to a daemon under test, kept inside that daemon's own home, and what is asked of the answers.

Made-up paths become folders of the home and made-up ids mostly those of its sessions and fuses, so that requests
reach the code behind the first check, and never anything of this machine. Nothing that is sent can run a command
or call an address.
"""

import json
import os
import zlib

import schemathesis

PLACES = json.loads(os.environ["FUZZ_PLACES"])
IDS = json.loads(os.environ["FUZZ_IDS"])
COMMANDS = ("script", "webhook", "onCreate", "onComplete")
# No agent is installed in that home: who launches one is told so, as an agent's failure.
LAUNCHES = ("/v1/sessions", "/v1/sessions/{id}/resume")


def one_of(choices, value):
    """The same choice for the same value, so that a seed gives the same run."""
    return choices[zlib.crc32(repr(value).encode()) % len(choices)]


def tame(value, key=None):
    if isinstance(value, dict):
        kept = ((name, inner) for name, inner in value.items() if name not in COMMANDS or not isinstance(inner, str))
        return {name: tame(inner, name) for name, inner in kept}
    if isinstance(value, list):
        return [tame(inner, key) for inner in value]
    if isinstance(value, str) and value.startswith("/"):
        return one_of(PLACES, value)
    if key == "session" and isinstance(value, str):
        return one_of([*IDS["sessions"], value], value)
    return value


@schemathesis.hook
def before_call(context, case, kwargs):
    case.body = tame(case.body)
    if isinstance(case.query, dict):
        case.query = tame(case.query)
    # A request that is meant to be wrong stays so.
    wrong = case.meta is not None and case.meta.generation.mode.is_negative
    parameters = case.path_parameters
    if isinstance(parameters, dict) and "id" in parameters and not wrong:
        known = IDS.get(case.path.split("/")[2], [])
        parameters["id"] = one_of([*known, parameters["id"]], parameters["id"])


@schemathesis.check
def never_fails_here(context, response, case):
    told = response.status_code == 502 and case.path in LAUNCHES and case.method == "POST"
    assert response.status_code < 500 or told, f"{response.status_code}: {response.text}"


@schemathesis.check
def refuses_with_a_problem(context, response, case):
    # An answer to HEAD has no body.
    if response.status_code < 400 or case.method == "HEAD":
        return
    kind = response.headers.get("content-type", [""])[0]
    assert kind == "application/problem+json", f"{response.status_code} of type {kind}: {response.text}"
    problem = json.loads(response.text)
    assert problem["status"] == response.status_code, problem
    assert problem["type"] == "about:blank" and problem["title"] and problem["detail"] and problem["code"], problem
