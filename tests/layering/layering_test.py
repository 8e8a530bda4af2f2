#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the source tree follows the rules of house_rules.py.

Bazel cannot pass all files of all packages to a test, so the test finds the tree through the
symbolic link to its own file. It is tagged `external`, so it runs each time.
"""

import pathlib
import sys

import house_rules


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    tree = house_rules.Tree(root)
    missing = [folder for folder in ("WORKSPACE", "framework/core/BUILD", "ops/all/all_ops.cc")
               if folder not in tree.files]
    if missing:
        print(f"{root} is not the source tree: it lacks {', '.join(missing)}")
        return 1
    violations = [v for rule in house_rules.RULES for v in rule(tree)]
    for violation in violations:
        print(violation)
    print(f"{len(tree.files)} files, {len(house_rules.RULES)} rules, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
