#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_sbom.py FILE: fails unless the file is a CycloneDX 1.5 bill of materials of an installation."""

import json
import pathlib
import re
import sys

# Source packages that are part of every build, and how.
CONTAINED = {"abseil": "headers", "grpc": "static", "protobuf": "static", "eigen3": "headers", "nlohmann-json3": "headers"}
LINKAGES = {"static", "headers", "dynamic", "optional"}
COMPONENT_TYPES = {"application", "library", "file"}


def check_component(component, with_version=True):
    """Checks the fields that the specification requires and those that scanners need."""
    name = component["name"]
    assert component["type"] in COMPONENT_TYPES and name, component
    for item in component.get("hashes", []):
        assert item["alg"] == "SHA-256" and re.fullmatch("[0-9a-f]{64}", item["content"]), component
    for item in component.get("licenses", []):
        assert len(item["license"]) == 1 and (item["license"].get("id") or item["license"].get("name")), component
    for item in component.get("properties", []):
        assert set(item) == {"name", "value"}, component
    if with_version:
        assert component["version"] and component["licenses"], component
        assert re.fullmatch(r"pkg:[a-z]+(/[a-z]+)?/[^@/]+@[^@]+", component["purl"]), component
    for part in component.get("components", []):
        check_component(part, with_version=False)
        assert part["hashes"], component


def linkage(component):
    return [item["value"] for item in component.get("properties", []) if item["name"] == "mirrorflow:linkage"]


def source(component):
    """Returns the source package's name and version."""
    [value] = [item["value"] for item in component["properties"] if item["name"] == "mirrorflow:debian_source"]
    return re.fullmatch(r"(\S+) \(= (\S+)\)", value).groups()


def check(bill):
    assert bill["bomFormat"] == "CycloneDX" and bill["specVersion"] == "1.5" and bill["version"] == 1
    assert re.fullmatch("urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    check_component(bill["metadata"]["component"])
    components = {component["bom-ref"]: component for component in bill["components"]}
    assert len(components) == len(bill["components"]), "duplicate bom-ref"
    own = [ref for ref, component in components.items() if not linkage(component)]
    assert {components[ref]["type"] for ref in own} == {"library", "application"}, own
    packages = [component for component in components.values() if component.get("purl", "").startswith("pkg:deb/")]
    for component in packages:
        check_component(component)
        assert linkage(component) and set(linkage(component)) <= LINKAGES, component
        assert component["components"], f"no hash: {component}"
    for ref in own:
        check_component(components[ref])
        assert components[ref]["hashes"], ref
    contained = {source(component)[0]: kind for component in packages for kind in linkage(component)
                 if kind in ("static", "headers")}
    assert contained == CONTAINED, contained
    assert any("dynamic" in linkage(component) for component in packages)
    known = {"mirrorflow", *components}
    refs = [item["ref"] for item in bill["dependencies"]]
    assert sorted(refs) == sorted(known), "dependencies must list each component once"
    for item in bill["dependencies"]:
        assert set(item["dependsOn"]) <= known, item


if __name__ == "__main__":
    check(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")))
