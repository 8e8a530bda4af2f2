// SPDX-License-Identifier: Apache-2.0
//
// Reads a text as a run's log and makes a report page from it.
#include "absl/strings/string_view.h"
#include "tests/fuzz/run_page.h"
#include "tools/report/read_run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  RunData run;
  ReadLogLines(absl::string_view(reinterpret_cast<const char*>(data), size), &run);
  CheckPageOf(run);
  return 0;
}
