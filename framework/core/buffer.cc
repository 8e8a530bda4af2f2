// SPDX-License-Identifier: Apache-2.0
#include "framework/core/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {
constexpr size_t kHugePage = size_t{2} << 20;
}  // namespace

absl::StatusOr<std::shared_ptr<Buffer>> Buffer::Allocate(size_t bytes) {
  const size_t alignment = bytes >= kHugePage ? kHugePage : kBufferAlignment;
  const size_t padded = AlignUp(bytes == 0 ? 1 : bytes, alignment);
  void* data = padded >= bytes ? std::aligned_alloc(alignment, padded) : nullptr;
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", bytes, " bytes of memory"));
  }
  if (alignment == kHugePage) madvise(data, padded, MADV_HUGEPAGE);
  std::memset(data, 0, padded);
  return std::shared_ptr<Buffer>(new Buffer(static_cast<std::byte*>(data), bytes));
}

Buffer::~Buffer() { std::free(data_); }

}  // namespace mirrorflow
