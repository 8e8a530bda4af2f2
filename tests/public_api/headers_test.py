#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the public headers are few, name no internal types, and compile without warnings."""

import os
import re
import subprocess
import tempfile
import unittest

PUBLIC = ("mirrorflow.h", "mirrorflow_extend.h", "mirrorflow_debug.h")
MAX_HEADERS = 20
# Names of types that represent compiled steps and the replicas that run them.
INTERNAL = re.compile(r"\b(Plan|Replica|Compilation|Program|BoundPlan|PlanState|KernelPlan|Lane)\b")
COMPILERS = ("g++", "clang++")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


def includes(path):
    """Returns the workspace headers that a file includes, in order."""
    with open(path, encoding="utf-8") as file:
        found = re.findall(r'^#include "([^"]+)"', file.read(), re.MULTILINE)
    return [name for name in found if os.path.exists(name)]


def closure(path):
    """Returns the file and all workspace headers that it includes, directly or indirectly."""
    seen, pending = set(), [path]
    while pending:
        header = pending.pop()
        if header not in seen:
            seen.add(header)
            pending.extend(includes(header))
    return sorted(seen)


def code(path):
    """Returns a file's lines without comments and string literals."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"//.*|\"(?:\\.|[^\"\\\n])*\"", "", file.read())
    return enumerate(text.split("\n"), 1)


def compile_errors(compiler, source, *flags):
    """Returns the compiler's diagnostics for a source text, or "" if it compiles cleanly."""
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as file:
        file.write(source)
        file.flush()
        result = subprocess.run(
            [compiler, "-std=c++20", "-fsyntax-only", "-I.", *WARNINGS, *flags, file.name],
            capture_output=True, text=True)
    return result.stderr if result.returncode else ""


class HeadersTest(unittest.TestCase):

    def test_main_header_shows_few_headers(self):
        shown = includes("mirrorflow.h")
        self.assertGreater(len(shown), 10)
        self.assertLessEqual(len(shown), MAX_HEADERS, shown)

    def test_main_header_names_no_internal_types(self):
        headers = closure("mirrorflow.h")
        self.assertGreater(len(headers), 50)
        named = [f"{path}:{number}: {line.strip()}" for path in headers
                 for number, line in code(path) if INTERNAL.search(line)]
        self.assertEqual(named, [])
        # mirrorflow_debug.h does name internal types, which shows that the rule detects them.
        self.assertTrue(any(INTERNAL.search(line) for path in closure("mirrorflow_debug.h")
                            for _, line in code(path)))

    def test_headers_compile_without_a_warning(self):
        for compiler in COMPILERS:
            for header in PUBLIC:
                with self.subTest(compiler=compiler, header=header):
                    self.assertEqual(compile_errors(compiler, f'#include "{header}"\n'), "")

    def test_each_shown_header_compiles_alone(self):
        for header in includes("mirrorflow.h"):
            with self.subTest(header=header):
                self.assertEqual(compile_errors("g++", f'#include "{header}"\n'), "")

    def test_discarded_scope_is_a_warning(self):
        source = ('#include "mirrorflow.h"\n'
                  "void F(const mirrorflow::Strategy& strategy) { %s }\n")
        for compiler in COMPILERS:
            with self.subTest(compiler=compiler):
                self.assertIn("nodiscard", compile_errors(compiler, source % "strategy.scope();"))
                kept = "auto mirrored = strategy.scope();"
                self.assertEqual(compile_errors(compiler, source % kept), "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
