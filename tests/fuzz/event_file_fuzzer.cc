// SPDX-License-Identifier: Apache-2.0
//
// Reads records that may be events, and makes a page of them. The fuzzer cannot guess checksums, so
// the input has only the lengths and the contents of the records.
#include <cstdint>
#include <string>

#include "framework/core/masked_crc32c.h"
#include "framework/core/status.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/in_memory_file.h"
#include "tests/fuzz/run_page.h"
#include "tools/report/event_files.h"

namespace mirrorflow {
namespace {

void AppendBytes(uint64_t number, size_t size, std::string* file) {
  file->append(reinterpret_cast<const char*>(&number), size);
}

void AppendRecord(const std::string& record, std::string* file) {
  const size_t begin = file->size();
  AppendBytes(record.size(), sizeof(uint64_t), file);
  AppendBytes(MaskedCrc32c(file->substr(begin)), sizeof(uint32_t), file);
  *file += record;
  AppendBytes(MaskedCrc32c(record), sizeof(uint32_t), file);
}

}  // namespace
}  // namespace mirrorflow

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  FuzzInput input(data, size);
  std::string contents;
  while (!input.empty()) AppendRecord(input.TakeBytes(input.Take<uint16_t>()), &contents);
  const InMemoryFile file(reinterpret_cast<const uint8_t*>(contents.data()), contents.size());
  RunData run;
  run.series["train/loss"] = {{1, 1}, {2, 2}, {3, 3}};  // of an earlier file
  ReadEventFile(file.path(), "train/", &run);
  CheckPageOf(run);
  return 0;
}
