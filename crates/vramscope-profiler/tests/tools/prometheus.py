"""Prints what the official Python client of Prometheus reads in a scrape on stdin, as JSON: families by name.

    prometheus.py CONTENT_TYPE < SCRAPE
"""
import json, sys

if sys.argv[1].startswith("application/openmetrics-text"):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
else:
    from prometheus_client.parser import text_string_to_metric_families

families = {}
for family in text_string_to_metric_families(sys.stdin.read()):
    assert family.name not in families, family.name
    families[family.name] = {
        "type": family.type,
        "unit": family.unit,
        "help": family.documentation,
        "samples": [{"name": s.name, "labels": s.labels, "value": s.value} for s in family.samples],
    }
print(json.dumps(families))
