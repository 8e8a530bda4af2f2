#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SECURITY.md states the limits that the sources have, and names tests and fuzz targets that exist.

A limit reads "`NAME` = VALUE (`FILE`)". It is tagged `external`, as names_test.py is, so that it runs each time.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
UNITS = {"": 1, "s": 1, "ms": 0.001, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
LIMIT = re.compile(r"`(\w+)` = ([\d,]+)(?: (s|ms|[KMG]iB))? \(`([^`]+)`\)")
HEADER = "| input | from | bounds |"


def value_in_sources(name, path):
    """The value of the constant that the file defines, or a text that says what is wrong."""
    text = (ROOT / path).read_text(encoding="utf-8")
    found = re.search(rf"\b{name} = ([^;]+);", text)
    if not found:
        return f"no {name} in {path}"
    number = re.sub(r"\w+\{(\d+)\}", r"\1", found[1].replace("'", "").replace("absl::Seconds", ""))
    number = number.replace("absl::Milliseconds", "0.001 * ")
    if not re.fullmatch(r"[\d<*(). ]+", number):
        return f"{name} in {path} is not a number: {found[1]}"
    return eval(number)  # pylint: disable=eval-used


def rows():
    """The cells of the table of inputs."""
    lines = PAGE[PAGE.index(HEADER):].split("\n\n")[0].splitlines()[2:]
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
        named = {target for row in rows() for target in re.findall(r"`(\w+)`", row[3])}
        existing = {path.name.removesuffix("_fuzzer.cc") for path in (ROOT / "tests/fuzz").glob("*_fuzzer.cc")}
        self.assertEqual(named, existing)

    def test_every_row_is_complete(self):
        self.assertGreater(len(rows()), 25)
        for row in rows():
            self.assertEqual(len(row), 4, row)
            self.assertTrue(all(row), row)


if __name__ == "__main__":
    unittest.main()
