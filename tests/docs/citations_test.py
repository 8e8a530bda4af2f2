#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Comments, messages and pages cite only pages and sections that exist.

A page is cited by its path from the root of the tree, or from a folder that contains the citing file. Section titles
follow in quotes: docs/design.md, "Partial sums". Links between pages cite sections as page.md#partial-sums.
The test is tagged `external`, like names_test.py, so it runs each time.
"""

import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("", ".ci", "bazel", "distribute", "docs", "examples", "framework", "kernels", "ops", "packaging", "tests",
           "third_party", "tools", "train")
SUFFIXES = ("", ".bzl", ".cc", ".cu", ".cuh", ".h", ".md", ".proto", ".py", ".sh")
# These files test rules, with citations that are wrong on purpose.
SAMPLES = ("tests/docs/citations_test.py", "tests/layering/house_rules_test.py")

PAGE = re.compile(r'(?<![\w/.:-])((?:\.\./)*\w[\w/.-]*\.md)\b`?(?:#([\w-]+))?((?:,? (?:and |\()?"[^"]+")*)')
URL = re.compile(r"\bhttps?://\S+")


def sources():
    """Returns the text files of the tree, as {path: text}."""
    files = {}
    for folder in FOLDERS:
        for path, _, names in os.walk(ROOT / folder):
            for name in names:
                file = pathlib.Path(path, name)
                if file.suffix in SUFFIXES and "__pycache__" not in file.parts:
                    try:
                        files[str(file.relative_to(ROOT))] = file.read_text(encoding="utf-8")
                    except UnicodeDecodeError:
                        pass  # a binary file
            if not folder:
                break  # only the files at the root
    return files


def prose(page):
    """Returns the page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)


def titles(page):
    """Returns the section titles of a page."""
    return re.findall(r"^#+ (.*?) *$", prose(page), re.MULTILINE)


def anchor(title):
    """Returns the anchor that GitHub gives to a section."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def wrong_citations(path, text, files):
    """Yields a message for each bad citation in a file's text."""
    text = URL.sub("", prose(text) if path.endswith(".md") else text)
    text = re.sub(r"\n\s*(?://+|#)? ?", " ", text)  # a citation may continue on the next line
    for name, section, quoted in PAGE.findall(text):
        near = [os.path.normpath(parent / name) for parent in pathlib.Path(path).parents]
        page = next((file for file in near if file in files), None)
        if page is None:
            yield f"{path}: no page {name}"
            continue
        known = titles(files[page])
        if section and section not in map(anchor, known):
            yield f"{path}: {page} has no section #{section}"
        for title in re.findall(r'"([^"]+)"', quoted):
            if title not in known:
                yield f'{path}: {page} has no section "{title}"'
    if path.endswith(".md"):
        for section in re.findall(r"\]\(#([\w-]+)\)", text):
            if section not in map(anchor, titles(files[path])):
                yield f"{path}: no section #{section}"
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            if not (ROOT / path).parent.joinpath(link).exists():
                yield f"{path}: no file {link}"


class CitationsTest(unittest.TestCase):

    def test_cited_pages_and_sections_exist(self):
        files = sources()
        self.assertIn("docs/design.md", files)
        self.assertGreater(len(files), 2000)
        wrong = [what for path, text in files.items() if path not in SAMPLES
                 for what in wrong_citations(path, text, files)]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_wrong_citations_are_found(self):
        files = {"docs/a.md": "# A\n\n## Partial sums, too\n```\n# code\n```\n", "b/C.md": "# C\n"}
        for text, count in [
                ("// docs/a.md, C.md\n", 0),
                ('// docs/a.md ("A" and\n  // "Partial sums, too")\n', 0),
                ("[a](../docs/a.md#partial-sums-too)", 0),
                ("see https://example.com/docs/x.md", 0),
                ("// SHARDING.md section 2\n", 1),
                ("a.md", 1),
                ('// docs/a.md, "Full sums"\n', 1),
                ('# docs/a.md ("A" and\n# "code")\n', 1),
                ("[a](../docs/a.md#full-sums)", 1),
        ]:
            with self.subTest(text):
                self.assertEqual(len(list(wrong_citations("b/d.h", text, files))), count)


if __name__ == "__main__":
    unittest.main()
