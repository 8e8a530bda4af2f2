// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/shared_memory/heap.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/cgroup.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kAddresses = size_t{1} << 46;  // half of a process's address space

}  // namespace

absl::StatusOr<std::shared_ptr<SharedHeap>> SharedHeap::Create(int num_heaps) {
  const size_t most = kAddresses / num_heaps / kHugePageBytes * kHugePageBytes;
  MF_ASSIGN_OR_RETURN(
      auto segment, SharedSegment::Create(std::min(AlignUp(UsableMemory(), kHugePageBytes), most)));
  return std::shared_ptr<SharedHeap>(new SharedHeap(std::move(segment)));
}

absl::StatusOr<std::shared_ptr<std::byte>> SharedHeap::Allocate(size_t bytes) {
  MF_RETURN_IF_ERROR(Buffer::CheckAvailable(bytes));
  const size_t size = AlignUp(bytes == 0 ? 1 : bytes, kPageBytes);
  MF_ASSIGN_OR_RETURN(const size_t offset, Take(size));
  const absl::Status populated = segment_->Populate(offset, size);
  if (!populated.ok()) {
    GiveBack(offset, size);
    return populated;
  }
  return std::shared_ptr<std::byte>(
      segment_->data() + offset,
      [heap = shared_from_this(), offset, size](std::byte*) { heap->GiveBack(offset, size); });
}

// First-fit allocation. Large blocks are aligned to huge pages.
absl::StatusOr<size_t> SharedHeap::Take(size_t bytes) {
  const size_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : kPageBytes;
  MutexLock lock(&mu_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [first, size] = *it;
    const size_t offset = AlignUp(first, alignment), end = first + size;
    if (offset + bytes > end) continue;
    free_.erase(it);
    if (offset > first) free_[first] = offset - first;
    if (end > offset + bytes) free_[offset + bytes] = end - offset - bytes;
    return offset;
  }
  return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", bytes,
                                                   " bytes of shared memory; expected at most ",
                                                   segment_->size(), " bytes in total"));
}

void SharedHeap::KeepContents() {
  MutexLock lock(&mu_);
  keeps_contents_ = true;
}

void SharedHeap::GiveBack(size_t offset, size_t bytes) {
  MutexLock lock(&mu_);
  if (keeps_contents_) return;
  segment_->Release(offset, bytes);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

}  // namespace mirrorflow
