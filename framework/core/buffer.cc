// SPDX-License-Identifier: Apache-2.0
#include "framework/core/buffer.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {
constexpr size_t kHugePage = size_t{2} << 20;
// From here on memory is asked for only if it is there. Linux would promise it in any case, and end
// a process when it is written.
constexpr size_t kLarge = size_t{256} << 20;

// What this machine can still give, its swap included; everything if it does not say.
size_t AvailableBytes() {
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return std::numeric_limits<size_t>::max();
  size_t available = std::numeric_limits<size_t>::max(), swap = 0;
  char line[128];
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    size_t kibibytes;
    if (std::sscanf(line, "MemAvailable: %zu kB", &kibibytes) == 1) available = kibibytes << 10;
    if (std::sscanf(line, "SwapFree: %zu kB", &kibibytes) == 1) swap = kibibytes << 10;
  }
  std::fclose(file);
  return available > std::numeric_limits<size_t>::max() - swap ? available : available + swap;
}
}  // namespace

absl::StatusOr<std::shared_ptr<Buffer>> Buffer::Allocate(size_t bytes) {
  const size_t alignment = bytes >= kHugePage ? kHugePage : kBufferAlignment;
  const size_t padded = AlignUp(bytes == 0 ? 1 : bytes, alignment);
  const size_t most = bytes >= kLarge ? AvailableBytes() : bytes;
  const bool fits = padded >= bytes && bytes <= most;
  void* data = fits ? std::aligned_alloc(alignment, padded) : nullptr;
  if (data == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot allocate ", bytes, " bytes of memory; expected at most ", AvailableBytes()));
  }
  if (alignment == kHugePage) madvise(data, padded, MADV_HUGEPAGE);
  std::memset(data, 0, padded);
  return std::shared_ptr<Buffer>(new Buffer(static_cast<std::byte*>(data), bytes));
}

Buffer::~Buffer() { std::free(data_); }

}  // namespace mirrorflow
