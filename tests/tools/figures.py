"""Reads figures in Prometheus' text format from stdin and prints the families with the number of their samples."""

import json
import sys

from prometheus_client.parser import text_string_to_metric_families

families = list(text_string_to_metric_families(sys.stdin.read()))
for family in families:
    assert family.documentation, f"{family.name} has no help"
    assert family.type != "unknown", f"{family.name} has no type"
    seen = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in family.samples]
    assert len(seen) == len(set(seen)), f"{family.name} says something twice"
print(json.dumps({family.name: [family.type, len(family.samples)] for family in families}))
