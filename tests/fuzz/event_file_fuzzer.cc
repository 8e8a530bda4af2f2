// SPDX-License-Identifier: Apache-2.0
//
// Reads records, which may be events, and makes a report page from them. The fuzzer cannot guess
// checksums, so the input contains only the records' lengths and contents.
#include <cstdint>
#include <string>

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/in_memory_file.h"
#include "tests/fuzz/records.h"
#include "tests/fuzz/run_page.h"
#include "tools/report/read_run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  FuzzInput input(data, size);
  std::string contents;
  while (!input.empty()) AppendRecord(input.TakeBytes(input.Take<uint16_t>()), &contents);
  const InMemoryFile file(reinterpret_cast<const uint8_t*>(contents.data()), contents.size());
  RunData run;
  run.series["train/loss"] = {{1, 1}, {2, 2}, {3, 3}};  // read from an earlier file
  ReadEventFiles({{file.path(), "train/"}}, &run);
  CheckPageOf(run);
  return 0;
}
