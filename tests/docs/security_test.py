#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SECURITY.md states the same limits as the sources, and names tests and fuzz targets that exist.

A limit reads "`NAME` = VALUE (`FILE`)". The test is tagged `external`, like names_test.py, so it runs each time.
"""

import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
UNITS = {"": 1, "s": 1, "ms": 0.001, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
LIMIT = re.compile(r"`(\w+)` = ([\d,]+)(?: (s|ms|[KMG]iB))? \(`([^`]+)`\)")
INPUTS = "| input | from | bounds |"
DEPENDENCIES = "| library | Debian 12 |"
# The package of each library in the table, except for NVIDIA's, which come from elsewhere.
PACKAGES = {
    "gRPC": "libgrpc-dev", "Protobuf": "libprotobuf-dev", "nlohmann-json": "nlohmann-json3-dev", "Eigen": "libeigen3-dev",
    "Abseil": "libabsl-dev", "c-ares": "libc-ares2", "RE2": "libre2-9", "OpenSSL": "libssl-dev", "zlib": "zlib1g-dev",
    "ISA-L": "libisal-dev", "libpng": "libpng-dev", "libjpeg-turbo": "libjpeg62-turbo-dev", "oneDNN": "libdnnl-dev",
    "libgomp": "libgomp1", "UCX": "libucx-dev",
}


def value_in_sources(name, path):
    """Returns the value of the constant that the file defines, or a text that says what is wrong."""
    text = (ROOT / path).read_text(encoding="utf-8")
    found = re.search(rf"\b{name} = ([^;]+);", text)
    if not found:
        return f"no {name} in {path}"
    number = re.sub(r"\w+\{(\d+)\}", r"\1", found[1].replace("'", "").replace("absl::Seconds", ""))
    number = number.replace("absl::Milliseconds", "0.001 * ")
    if not re.fullmatch(r"[\d<*(). ]+", number):
        return f"{name} in {path} is not a number: {found[1]}"
    return eval(number)  # pylint: disable=eval-used


def rows(header):
    """Returns the cells of the table that begins with the header."""
    lines = PAGE[PAGE.index(header):].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


class SecurityTest(unittest.TestCase):

    def test_limits_are_those_of_the_sources(self):
        limits = LIMIT.findall(PAGE)
        self.assertGreater(len(limits), 30)
        self.assertEqual(len(limits), len(re.findall(r"`\w+` = ", PAGE)), "a limit that is not `NAME` = VALUE (`FILE`)")
        for name, number, unit, path in limits:
            with self.subTest(f"{name} in {path}"):
                self.assertEqual(value_in_sources(name, path), int(number.replace(",", "")) * UNITS[unit])

    def test_tests_exist(self):
        for path in re.findall(r"`(tests/[^`]+\.(?:cc|py))`", PAGE):
            self.assertTrue((ROOT / path).is_file(), path)

    def test_fuzz_targets_are_those_of_the_sources(self):
        named = {target for row in rows(INPUTS) for target in re.findall(r"`(\w+)`", row[3])}
        existing = {path.name.removesuffix("_fuzzer.cc") for path in (ROOT / "tests/fuzz").glob("*_fuzzer.cc")}
        self.assertEqual(named, existing)

    def test_every_row_is_complete(self):
        self.assertGreater(len(rows(INPUTS)), 25)
        for row in rows(INPUTS):
            self.assertEqual(len(row), 4, row)
            self.assertTrue(all(row), row)
            self.assertRegex(row[3], r"^(none\b|`\w+`)", "expected fuzz targets, or `none`")

    # The table lists the versions in Debian 12. Other systems lack these packages.
    @unittest.skipUnless(shutil.which("dpkg-query"), "the versions are those of Debian's packages")
    def test_versions_are_those_of_the_packages(self):
        table = {name: version for row in rows(DEPENDENCIES) if not row[0].startswith("CUDA")
                 for name, version in zip(row[0].split(", "), row[1].split(", "), strict=True)}
        self.assertEqual(table.keys(), PACKAGES.keys())
        for name, version in table.items():
            with self.subTest(name):
                installed = subprocess.run(["dpkg-query", "-W", "-f=${Version}", PACKAGES[name]],
                                           capture_output=True, text=True, check=True).stdout
                self.assertTrue(re.split(":", installed)[-1].startswith(version), installed)


if __name__ == "__main__":
    unittest.main()
