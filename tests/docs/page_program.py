#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a program of a page of docs/, of its C++ blocks one after another.

    page_program.py PAGE.md > PROGRAM.cc

If the blocks define main, they are the whole program. Otherwise they are the body of a function, except for
their #include lines.
"""

import re
import sys

PROGRAM = """// Made from %s.
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "mirrorflow.h"
%s
namespace mf = mirrorflow;

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
        blocks = re.findall(r"^```cpp\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
    if not blocks:
        sys.exit(f"{path}: expected blocks of C++, got none")
    code = "\n".join(blocks)
    if re.search(r"^int main\(", code, re.MULTILINE):
        print(code)
        return
    lines = code.splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    body = [line for line in lines if not line.startswith("#include")]
    print(PROGRAM % (path, "\n".join(includes), "\n".join(body)))


if __name__ == "__main__":
    main()
