"""Holds values against JSON Schemas (2020-12), with the formats.

The file that is named holds a list of {"schema": ..., "cases": [{"name": ..., "at": "#/$defs/...", "value": ...}]}.
A key that a schema does not describe is a fault too, though anybody may be sent one: then the schema is behind.
"""

import json
import sys

from jsonschema import Draft202012Validator

COMPOSED = ("anyOf", "oneOf", "allOf", "$ref", "additionalProperties")


def closed(schema):
    """The same schema, in which nothing may stand that it does not describe."""
    if isinstance(schema, dict):
        schema = {key: closed(value) for key, value in schema.items()}
        if isinstance(schema.get("properties"), dict) and not any(key in schema for key in COMPOSED):
            schema["additionalProperties"] = False
        return schema
    return [closed(one) for one in schema] if isinstance(schema, list) else schema


def faults(given):
    Draft202012Validator.check_schema(given["schema"])
    schema = closed(given["schema"])
    parts = {key: schema[key] for key in ("$defs", "components") if key in schema}
    for case in given["cases"]:
        # What the root itself asks of its values does not hold for its parts.
        rules = schema if case["at"] == "#" else {"$ref": case["at"], **parts}
        validator = Draft202012Validator(rules, format_checker=Draft202012Validator.FORMAT_CHECKER)
        for error in validator.iter_errors(case["value"]):
            yield f"{case['name']}: {error.json_path}: {error.message[:1000]}"


with open(sys.argv[1], encoding="utf-8") as file:
    found = [fault for given in json.load(file) for fault in faults(given)]
print("\n".join(found))
sys.exit(1 if found else 0)
