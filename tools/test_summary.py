#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases of one `bazel test`; the last step of tools/test.

usage: test_summary.py BUILD_EVENTS.json BAZEL_EXIT_STATUS

Reads Bazel's own record of the run, so results of an earlier run are never counted. A test
program that fails although none of its cases did (a crash, a leak, a time-out, a build error)
is counted as one failed case. Prints the last lines of the logs of failed programs,
followed by the names of failed and skipped cases, and the counts. The lines of the logs are the
most useful output, and a service that shortens long output drops them first.
"""

import collections
import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


LOG_LINES = 20


def path_of(uri):
    return urllib.parse.unquote(urllib.parse.urlparse(uri).path)


def print_end_of_log(label, uri):
    try:
        with open(path_of(uri), encoding="utf-8", errors="replace") as log:
            lines = collections.deque(log, maxlen=LOG_LINES)
    except OSError:
        return  # Bazel's own message names the file.
    print(f"the last lines of {label}:")
    for line in lines:
        print(f"  {line.rstrip()}")


def read_cases(uri):
    """Yields (name, 'passed' | 'failed' | 'skipped') for each case of one test.xml."""
    try:
        root = ElementTree.parse(path_of(uri)).getroot()
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
        outputs = {f["name"]: f["uri"] for f in result.get("testActionOutput", ())}
        cases = [
            (f"{label} {name}", state) for name, state in read_cases(outputs.get("test.xml", ""))
        ]
        if result.get("status") != "PASSED":
            print_end_of_log(label, outputs.get("test.log", ""))
            if "failed" not in (state for _, state in cases):
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
