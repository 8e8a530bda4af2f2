// SPDX-License-Identifier: Apache-2.0
//
// Inflates a gzip file or a raw zlib stream. The first byte selects the format and the read size,
// which must not affect the result.
#include <algorithm>
#include <string>

#include "framework/core/status.h"
#include "tests/fuzz/in_memory_file.h"
#include "train/formats/gzip_reader.h"

namespace mirrorflow {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

struct Result {
  absl::Status status;
  std::string bytes;
};

Result ReadAll(GzipReader& reader, size_t size_of_read) {
  Result result;
  std::string part(size_of_read, '\0');
  while (result.bytes.size() < kMaxBytes) {
    const absl::StatusOr<size_t> read = reader.Read(part.size(), part.data());
    if (!read.ok()) {
      MF_CHECK(absl::IsDataLoss(read.status()));
      result.status = read.status();
      return result;
    }
    result.bytes.append(part, 0, *read);
    if (*read < part.size()) break;
  }
  MF_CHECK(result.bytes.size() <= reader.max_bytes());
  return result;
}

}  // namespace
}  // namespace mirrorflow

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  if (size == 0) return 0;
  const InMemoryFile file(data + 1, size - 1);
  const auto format =
      data[0] % 2 == 0 ? GzipReader::Format::kPlainOrGzip : GzipReader::Format::kZlib;
  const auto open = [&] {
    auto reader = GzipReader::Open(file.path(), format);
    MF_CHECK(reader.ok());
    return *std::move(reader);
  };
  const Result whole = ReadAll(*open(), size_t{1} << 16);
  const Result parts = ReadAll(*open(), 1 + data[0] / 2);
  // A failed read returns no bytes, so shorter reads can return more in total.
  const size_t common = std::min(whole.bytes.size(), parts.bytes.size());
  MF_CHECK(whole.bytes.substr(0, common) == parts.bytes.substr(0, common));
  MF_CHECK(whole.status.ok() == parts.status.ok() || whole.bytes.size() != parts.bytes.size());
  if (whole.status.ok() && whole.bytes.size() < kMaxBytes) {
    MF_CHECK(parts.status.ok() && parts.bytes == whole.bytes);
    const auto skipping = open();
    const absl::StatusOr<uint64_t> skipped = skipping->Skip(whole.bytes.size() + 1);
    MF_CHECK(skipped.ok() && *skipped == whole.bytes.size());
  }
  return 0;
}
