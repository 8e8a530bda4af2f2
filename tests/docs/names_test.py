#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages in docs/ refer only to API names, flags, environment variables and commands that exist.

Bazel cannot pass all files of all packages to a test, so the test finds the tree through the symbolic link to its own
file. It is tagged `external`, so it runs each time.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("framework", "ops", "kernels", "distribute", "train", "tools", "tests")
# Flags of other programs that appear in pages.
FOREIGN_FLAGS = {"no-python", "nproc_per_node", "nnodes", "min-np", "max-np", "max-restarts", "config", "help",
                 "only-upgrade", "configure", "cpus"}


def closure(header):
    """Returns the header and everything that it includes from this tree, as one text."""
    seen, pending, text = set(), [header], ""
    while pending:
        path = pending.pop()
        if path in seen or not (ROOT / path).exists():
            continue
        seen.add(path)
        part = (ROOT / path).read_text(encoding="utf-8")
        text += part
        pending += re.findall(r'^#include "([^"]+)"', part, re.MULTILINE)
    return text


def sources():
    """Returns all code of the programs, as one text."""
    return "\n".join(path.read_text(encoding="utf-8", errors="replace")
                     for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))
                     if path.is_file() and path.suffix in (".cc", ".h", ".py", ""))


def api_words():
    code = re.sub(r"//.*", "", "".join(map(closure, ("mirrorflow.h", "mirrorflow_extend.h", "mirrorflow_debug.h"))))
    return set(re.findall(r"\w+", code))


def lines(page):
    """Yields (line number, line, whether it is in a code block)."""
    in_code = False
    for number, line in enumerate(page.split("\n"), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        else:
            yield number, line, in_code


def spans(page):
    """Yields (line number, text) for words in backquotes and for lines in code blocks."""
    for number, line, in_code in lines(page):
        for text in [line] if in_code else re.findall(r"`([^`]+)`", line):
            yield number, text


def missing(page, words, code, commands):
    for number, text in spans(page):
        for found in re.findall(r"\bmf::(\w+(?:::\w+)*)", text):
            if not set(found.split("::")) <= words:
                yield number, f"mf::{found} is in no public header"
        for found in re.findall(r"(?<![\w-])--([a-z][\w-]*)", text):
            flag = rf"ABSL_FLAG\([^;]*?\b(?:no)?{found}\b,|--{found}\b"
            if found not in FOREIGN_FLAGS and not re.search(flag, code):
                yield number, f"no program has the flag --{found}"
        for found in re.findall(r"\bMIRRORFLOW_[A-Z_]+[A-Z]", text):
            if not re.search(rf"\b{found}\b", code):
                yield number, f"nothing reads {found}"
        for found in re.findall(r"^(?:bin/)?mirrorflow ([a-z]+)", text):
            if found not in commands:
                yield number, f"mirrorflow has no command {found}"


def main():
    words = api_words()
    code = sources()
    commands = set(re.findall(r'^    {"(\w+)", ', (ROOT / "tools/mirrorflow.cc").read_text(encoding="utf-8"), re.M))
    pages = sorted((ROOT / "docs").glob("**/*.md"))
    count = 0
    for path in pages:
        name = str(path.relative_to(ROOT))
        for number, what in missing(path.read_text(encoding="utf-8"), words, code, commands):
            print(f"{name}:{number}: {what}")
            count += 1
    print(f"{len(pages)} pages, {len(words)} names of the API, {count} findings")
    if len(words) < 2000 or len(commands) < 5 or len(pages) < 5:
        print(f"{ROOT} is not the source tree")
        return 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
