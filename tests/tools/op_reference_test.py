#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mirrorflow ops` describes the ops, and docs/ops contains the pages that it writes."""

import pathlib
import re
import unittest

from programs import MIRRORFLOW, ProgramTest, USAGE, main

PAGES = pathlib.Path("docs/ops").absolute()
RENEW = "bazel run --config=cuda //tools:mirrorflow -- ops --markdown=$PWD/docs/ops"


def without_gpu(page):
    """Returns the page without the GPU kernels, which only a build with CUDA lists."""
    return re.sub(r"^- kernels: (?:(CPU)(?:, GPU)?|GPU|none.*)$",
                  lambda match: f"- kernels: {match[1] or 'none'}", page, flags=re.MULTILINE)


class OpReferenceTest(ProgramTest):

    def ops(self, *args, **options):
        result = self.run_program(MIRRORFLOW, "ops", *args, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def test_pages_are_those_that_the_program_writes(self):
        want = {path.name: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}
        self.assertGreater(len(want), 50)
        (self.root / "pages").mkdir(exist_ok=True)
        log = self.ops("--markdown=pages", new_files=[f"pages/{name}" for name in want]).stderr
        for name, page in want.items():
            with self.subTest(name):
                got = (self.root / "pages" / name).read_text(encoding="utf-8")
                if "built without CUDA" in log:
                    page, got = without_gpu(page), without_gpu(got)
                self.assertEqual(page, got, f"docs/ops/{name} is out of date; update it with\n  {RENEW}")

    def test_every_op_is_in_the_index_and_on_its_page(self):
        index = (PAGES / "README.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| \[`(\w+)`\]\((\w+\.md)#\w+\) \| (.+) \| \w+ \|$", index, re.MULTILINE)
        listed = [line.split()[0] for line in self.ops().stdout.splitlines()]
        self.assertGreater(len(listed), 250)
        self.assertLessEqual(set(listed), {op for op, _, _ in rows})
        self.assertEqual([op for op, _, _ in rows], sorted(op for op, _, _ in rows))
        for op, page, doc in rows:
            self.assertIn(f"\n## {op}\n", (PAGES / page).read_text(encoding="utf-8"))
            self.assertGreater(len(doc), 3, op)

    def test_named_ops_are_described(self):
        text = self.ops("MatMul", "Identity").stdout
        self.assertIn("MatMul(a: T, b: T) -> (product: T)", text)
        self.assertIn("| `transpose_a` | bool | `false` |", text)
        self.assertIn("- gradient: yes", text)
        self.assertIn("## Identity", text)

    def test_unknown_ops_and_directories_are_reported(self):
        for args, code, where, what in [
            (["Matmul"], "NOT_FOUND", "ops", "unknown op 'Matmul'; did you mean MatMul?"),
            (["MatMul", "--markdown=x"], "INVALID_ARGUMENT", "ops", "--markdown takes no op names"),
            (["--markdown=missing"], "NOT_FOUND", "--markdown", "No such file or directory"),
        ]:
            self.check_fails(MIRRORFLOW, ["ops", *args], USAGE, code, where, what)


if __name__ == "__main__":
    main()
