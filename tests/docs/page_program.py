#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Concatenates the C++ blocks of a page in docs/ into a program.

    page_program.py PAGE > PROGRAM.cc

If the blocks define main, they are the whole program. Otherwise they become the body of a function, except for
their #include lines and for blocks that begin with ```cpp namespace, which precede that function.
"""

import re
import sys

PROGRAM = """// Made from %s.
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "mirrorflow.h"
%s
namespace mf = mirrorflow;
%s
absl::Status Page() {
%s
return absl::OkStatus();
}

int main() {
  const absl::Status status = Page();
  if (!status.ok()) std::fprintf(stderr, "%%s\\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
"""


def main():
    path, = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        blocks = re.findall(r"^```cpp( namespace)?\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
    if not blocks:
        sys.exit(f"{path}: expected at least one C++ block, got none")
    code = "\n".join(block for _, block in blocks)
    if re.search(r"^int main\(", code, re.MULTILINE):
        print(code)
        return
    includes, before, body = [], [], []
    for kind, block in blocks:
        for line in block.splitlines():
            (includes if line.startswith("#include") else before if kind else body).append(line)
    print(PROGRAM % (path, *("\n".join(lines) for lines in (includes, before, body))))


if __name__ == "__main__":
    main()
