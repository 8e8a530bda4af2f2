#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases of one `bazel test`; the last step of tools/test.

usage: test_summary.py BUILD_EVENTS.json BAZEL_EXIT_STATUS

Reads Bazel's own record of the run, so that results of an earlier run are never counted. A test
program that fails although none of its cases did (a crash, a leak, a time-out, a build error)
counts as one failed case. Prints the names of failed and skipped cases, then the counts.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


def read_cases(uri):
    """Yields (name, 'passed' | 'failed' | 'skipped') for each case of one test.xml."""
    try:
        root = ElementTree.parse(urllib.parse.unquote(urllib.parse.urlparse(uri).path)).getroot()
    except (OSError, ElementTree.ParseError):
        return  # The program died while writing; its exit status shows the failure.
    for case in root.iter("testcase"):
        name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
        if case.find("failure") is not None or case.find("error") is not None:
            yield name, "failed"
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            yield name, "skipped"
        else:
            yield name, "passed"


def read_events(path):
    """Returns the requested test targets, the skipped ones, and {(label, shard): last result}."""
    asked, skipped, results = set(), set(), {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            kind, identity = next(iter(event["id"].items()))
            label = identity.get("label", "") if isinstance(identity, dict) else ""
            if kind == "targetConfigured":
                if event.get("configured", {}).get("targetKind", "").endswith("_test rule"):
                    asked.add(label)
            elif kind == "targetCompleted":
                if event.get("aborted", {}).get("reason") == "SKIPPED":
                    skipped.add(label)
            elif kind == "testResult":
                results[label, identity.get("shard", 1)] = event["testResult"]
    return asked, asked & skipped, results


def main(events, bazel_status):
    asked, skipped, results = read_events(events)
    found = [(label, "skipped") for label in skipped]
    for (label, _), result in results.items():
        xml = [f["uri"] for f in result.get("testActionOutput", ()) if f["name"] == "test.xml"]
        cases = [(f"{label} {name}", state) for uri in xml for name, state in read_cases(uri)]
        if result.get("status") != "PASSED" and "failed" not in (state for _, state in cases):
            cases.append((f"{label} ({result.get('status')})", "failed"))
        found += cases
    built = {label for label, _ in results}
    found += [(f"{label} (NOT BUILT)", "failed") for label in asked - skipped - built]
    if bazel_status and "failed" not in (state for _, state in found):
        found.append((f"bazel (exit status {bazel_status})", "failed"))

    for wanted in ("skipped", "failed"):
        for name in sorted(name for name, state in found if state == wanted):
            print(f"{wanted}: {name}")
    states = [state for _, state in found]
    print(", ".join(f"{states.count(s)} {s}" for s in ("passed", "failed", "skipped")))
    return 1 if "failed" in states else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
