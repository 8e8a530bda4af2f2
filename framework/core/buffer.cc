// SPDX-License-Identifier: Apache-2.0
#include "framework/core/buffer.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/core/cgroup.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {
constexpr size_t kHugePage = size_t{2} << 20;
// Allocations of at least this size are first checked against the available memory. Otherwise Linux
// overcommits, and kills the process when it writes to the block.
constexpr size_t kLarge = size_t{256} << 20;

// How much more memory the process can allocate, and the limit that determines this.
struct Available {
  size_t bytes;
  const char* limit;
};

// Returns the memory that this machine and this process's control group have left, including swap,
// or the largest size_t if the system does not report it.
Available AvailableOnMachine() {
  size_t available = std::numeric_limits<size_t>::max(), swap = 0;
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  char line[128];
  while (file != nullptr && std::fgets(line, sizeof(line), file) != nullptr) {
    size_t kibibytes;
    if (std::sscanf(line, "MemAvailable: %zu kB", &kibibytes) == 1) available = kibibytes << 10;
    if (std::sscanf(line, "SwapFree: %zu kB", &kibibytes) == 1) swap = kibibytes << 10;
  }
  if (file != nullptr) std::fclose(file);
  available += std::min(swap, ~available);
  const size_t in_group = Cgroup().MemoryLeft(swap).value_or(available);
  if (in_group < available) return {in_group, " (memory limit of the control group)"};
  return {available, ""};
}

// Returns how many bytes are left below a memory limit, or the largest size_t if there is no limit.
// `format` matches the line of /proc/self/status that holds the amount in use.
size_t LeftOf(__rlimit_resource_t resource, const char* format) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  rlimit limit;
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNone;
  std::FILE* file = std::fopen("/proc/self/status", "re");
  size_t kibibytes = 0;
  char line[128];
  while (file != nullptr && std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::sscanf(line, format, &kibibytes) == 1) break;
  }
  if (file != nullptr) std::fclose(file);
  const size_t used = kibibytes << 10;
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

Available AvailableBytes() {
  Available least = AvailableOnMachine();
  const Available limits[] = {{LeftOf(RLIMIT_AS, "VmSize: %zu kB"), " (`ulimit -v`)"},
                              {LeftOf(RLIMIT_DATA, "VmData: %zu kB"), " (`ulimit -d`)"}};
  for (const Available& limit : limits) {
    if (limit.bytes < least.bytes) least = limit;
  }
  return least;
}

absl::Status TooMuch(size_t bytes) {
  const Available available = AvailableBytes();
  return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", bytes,
                                                   " bytes of memory; expected at most ",
                                                   available.bytes, available.limit));
}
}  // namespace

absl::Status Buffer::CheckAvailable(size_t bytes) {
  return bytes < kLarge || bytes <= AvailableBytes().bytes ? absl::OkStatus() : TooMuch(bytes);
}

absl::StatusOr<std::shared_ptr<Buffer>> Buffer::Allocate(size_t bytes) {
  MF_RETURN_IF_ERROR(CheckAvailable(bytes));
  const size_t alignment = bytes >= kHugePage ? kHugePage : kBufferAlignment;
  const size_t padded = AlignUp(bytes == 0 ? 1 : bytes, alignment);
  void* data = padded >= bytes ? std::aligned_alloc(alignment, padded) : nullptr;
  if (data == nullptr) return TooMuch(bytes);
  if (alignment == kHugePage) madvise(data, padded, MADV_HUGEPAGE);
  std::memset(data, 0, padded);
  return std::shared_ptr<Buffer>(new Buffer(static_cast<std::byte*>(data), bytes));
}

Buffer::~Buffer() { std::free(data_); }

absl::StatusOr<std::shared_ptr<Buffer>> BufferPool::Take(size_t bytes) {
  for (std::shared_ptr<Buffer>& buffer : buffers_) {
    // A count of 1 cannot grow, because the pool holds the only reference. The copy below orders
    // the caller's writes after the last holder's reads: libstdc++ increments the count with
    // acquire semantics and decrements it with release semantics.
    if (buffer.use_count() != 1) continue;
    if (buffer->size() < bytes) {
      MF_ASSIGN_OR_RETURN(buffer, Buffer::Allocate(bytes));
    }
    return buffer;
  }
  MF_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, Buffer::Allocate(bytes));
  buffers_.push_back(buffer);
  return buffer;
}

}  // namespace mirrorflow
