// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/shared_memory/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace mirrorflow {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status Failed(const char* what) {
  return SystemError(errno, absl::StrCat("shared memory: ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Create(size_t bytes) {
  const int fd = memfd_create("mirrorflow", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Failed("memfd_create");
  std::unique_ptr<SharedSegment> segment(new SharedSegment(fd));
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return Failed("ftruncate");
  if (fcntl(fd, F_ADD_SEALS, kSeals) != 0) return Failed("cannot seal the memory file");
  MF_RETURN_IF_ERROR(segment->Map(bytes));
  return segment;
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Open(int fd) {
  std::unique_ptr<SharedSegment> segment(new SharedSegment(fd));
  struct stat info;
  if (fstat(fd, &info) != 0) return Failed("fstat");
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError(
        "shared memory: expected a memory file sealed with F_SEAL_SHRINK, got another kind of "
        "file");
  }
  MF_RETURN_IF_ERROR(segment->Map(static_cast<size_t>(info.st_size)));
  return segment;
}

// Aligns the mapping: the kernel uses huge pages only if address and offset are aligned alike.
absl::Status SharedSegment::Map(size_t bytes) {
  void* const reserved = mmap(nullptr, bytes + kHugePageBytes, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return Failed("cannot reserve addresses");
  reserved_ = static_cast<std::byte*>(reserved);
  size_ = bytes;
  auto* const aligned =
      reinterpret_cast<std::byte*>(AlignUp(reinterpret_cast<uintptr_t>(reserved), kHugePageBytes));
  if (mmap(aligned, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd_,
           0) == MAP_FAILED) {
    return Failed("cannot map the memory file");
  }
  data_ = aligned;
  madvise(data_, size_, MADV_DONTDUMP);
  return absl::OkStatus();
}

SharedSegment::~SharedSegment() {
  if (reserved_ != nullptr) munmap(reserved_, size_ + kHugePageBytes);
  close(fd_);
}

absl::Status SharedSegment::Populate(size_t offset, size_t bytes) {
  // Without this, the system would kill a process that touches a page when no memory is left.
  while (fallocate(fd_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(bytes)) != 0) {
    if (errno == EINTR) continue;
    const absl::Status why = Failed("fallocate");
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", bytes, " bytes: ", why.message()));
  }
  // These calls only make the first accesses faster.
  const size_t first = AlignUp(offset, kHugePageBytes);
  const size_t end = (offset + bytes) / kHugePageBytes * kHugePageBytes;
  if (first < end) madvise(data_ + first, end - first, MADV_COLLAPSE);
  madvise(data_ + offset, bytes, MADV_POPULATE_WRITE);
  return absl::OkStatus();
}

void SharedSegment::Release(size_t offset, size_t bytes) {
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
}

}  // namespace mirrorflow
