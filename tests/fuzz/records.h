// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_FUZZ_RECORDS_H_
#define MIRRORFLOW_TESTS_FUZZ_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "framework/core/crc32c.h"

namespace mirrorflow {

// Appends a TFRecord with correct checksums, which a fuzzer cannot guess, to `file`.
inline void AppendRecord(const std::string& record, std::string* file) {
  const auto append = [file](uint64_t number, size_t size) {
    file->append(reinterpret_cast<const char*>(&number), size);
  };
  const size_t begin = file->size();
  append(record.size(), sizeof(uint64_t));
  append(MaskedCrc32c(file->substr(begin)), sizeof(uint32_t));
  *file += record;
  append(MaskedCrc32c(record), sizeof(uint32_t));
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FUZZ_RECORDS_H_
