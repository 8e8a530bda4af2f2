// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "framework/core/file.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"

namespace mirrorflow {
namespace {

constexpr char kLockFile[] = "lock";
// On file systems without locks, begins the text that an owner leaves when it ends.
constexpr absl::string_view kReleased = "released by ";
constexpr size_t kMaxTextBytes = 500;
constexpr absl::Duration kPause = absl::Milliseconds(100);

absl::StatusOr<std::string> RandomHex() {
  uint64_t random;
  if (getrandom(&random, sizeof random, 0) != sizeof random) {
    return SystemError(errno, "getrandom");
  }
  return absl::StrFormat("%016x", random);
}

// Opens the file without O_APPEND, with which pwrite(2) would append.
absl::StatusOr<int> OpenToOverwrite(const std::string& path, ExistingFile existing) {
  MF_ASSIGN_OR_RETURN(const int fd, OpenForAppending(path, {.existing = existing}));
  if (fcntl(fd, F_SETFL, 0) == 0) return fd;
  const absl::Status status = SystemError(errno, absl::StrCat(path, ": fcntl"));
  close(fd);
  return status;
}

bool IsSameFile(int fd, const std::string& path) {
  struct stat open_file, named;
  return fstat(fd, &open_file) == 0 && lstat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

// Returns the current text of the file; empty if there is none. Opens it anew, because a network
// file system may otherwise return an earlier text.
std::string TextIn(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  char text[kMaxTextBytes];
  const ssize_t size = read(fd, text, sizeof text);
  close(fd);
  return size > 0 ? std::string(text, size) : "";
}

// The first line says who the owner is.
std::string OwnerOf(const std::string& text) {
  return text.empty() ? "another process" : Printable(text.substr(0, text.find('\n')));
}

absl::Status WriteText(int fd, const std::string& path, const std::string& text) {
  const ssize_t written = pwrite(fd, text.data(), text.size(), 0);
  if (written == static_cast<ssize_t>(text.size()) && ftruncate(fd, written) == 0) {
    return absl::OkStatus();
  }
  return WriteError(written >= 0 && written < static_cast<ssize_t>(text.size()) ? ENOSPC : errno,
                    absl::StrCat(path, ": cannot write"));
}

}  // namespace

DirectoryLock::DirectoryLock(std::string directory, const DirectoryLockOptions& options)
    : directory_(std::move(directory)),
      path_(absl::StrCat(directory_, "/", kLockFile)),
      options_(options),
      has_flock_(!options.has_no_flock) {}

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Acquire(
    const std::string& directory, const DirectoryLockOptions& options) {
  std::unique_ptr<DirectoryLock> lock(new DirectoryLock(directory, options));
  const MonotonicTime start = MonotonicTime::Now();
  const MonotonicTime deadline = start + options.timeout;
  for (MonotonicTime next_report = start + options.report_interval;;) {
    MF_ASSIGN_OR_RETURN(bool owns, lock->TryLock());
    if (owns) {
      MF_RETURN_IF_ERROR(lock->WriteOwner());
      if (lock->has_flock_) return lock;
      // Another process may have taken the directory at the same time.
      absl::SleepFor(std::min(options.renewal, absl::Seconds(1)));
      if (lock->Check().ok()) {
        MF_RETURN_IF_ERROR(lock->StartRenewing());
        return lock;
      }
      lock->seen_.clear();
    }
    const std::string owner = OwnerOf(TextIn(lock->path_));
    const MonotonicTime now = MonotonicTime::Now();
    if (now >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(directory, ": in use by ", owner,
                       "; expected a directory for checkpoints that no other job uses"));
    }
    if (now >= next_report && options.log != nullptr) {
      options.log(absl::StrCat(directory, ": in use by ", owner, "; waiting for it to end"));
      next_report += options.report_interval;
    }
    absl::SleepFor(kPause);
  }
}

absl::StatusOr<bool> DirectoryLock::TryLock() {
  if (fd_ >= 0 && !IsSameFile(fd_, path_)) close(std::exchange(fd_, -1));
  // The system releases the lock when this process ends, however it ends.
  if (fd_ < 0) {
    MF_ASSIGN_OR_RETURN(fd_, OpenToOverwrite(path_, ExistingFile::kAppend));
  }
  if (has_flock_) {
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return IsSameFile(fd_, path_);
    if (errno == EWOULDBLOCK) return false;
    if (errno != ENOSYS && errno != EOPNOTSUPP && errno != ENOLCK) {
      return SystemError(errno, absl::StrCat(path_, ": flock"));
    }
    has_flock_ = false;
  }
  return HasNoOwner();
}

absl::StatusOr<bool> DirectoryLock::HasNoOwner() {
  const std::string text = TextIn(path_);
  if (text.empty() || absl::StartsWith(text, kReleased)) return true;
  const MonotonicTime now = MonotonicTime::Now();
  if (text != seen_) {
    seen_ = text;
    seen_since_ = now;
  }
  return now - seen_since_ >= options_.lease;
}

absl::Status DirectoryLock::WriteOwner() {
  char host[HOST_NAME_MAX + 1] = {};
  gethostname(host, sizeof host - 1);
  MF_ASSIGN_OR_RETURN(const std::string id, RandomHex());
  owner_ = absl::StrCat("process ", getpid(), " on ", host, " since ",
                        absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()),
                        ", id ", id);
  const std::string text = absl::StrCat(owner_, "\n");
  if (has_flock_) return WriteText(fd_, path_, text);
  // Replace the file: an earlier owner that resumes keeps rewriting the old one.
  const std::string temporary = absl::StrCat(path_, ".", id);
  MF_ASSIGN_OR_RETURN(const int fd, OpenToOverwrite(temporary, ExistingFile::kRefuse));
  close(std::exchange(fd_, fd));
  absl::Cleanup remove = [&] { unlink(temporary.c_str()); };
  MF_RETURN_IF_ERROR(WriteText(fd, temporary, text));
  if (rename(temporary.c_str(), path_.c_str()) != 0) {
    return SystemError(errno, absl::StrCat(path_, ": cannot rename"));
  }
  std::move(remove).Cancel();
  return absl::OkStatus();
}

absl::Status DirectoryLock::StartRenewing() {
  MF_ASSIGN_OR_RETURN(
      renewing_, StartThread("lock", [this] {
        std::unique_lock<std::mutex> lock(mu_);
        const auto pause = absl::ToChronoMilliseconds(options_.renewal);
        for (int64_t n = 1; !ending_.wait_for(lock, pause, [&] { return ends_; }); ++n) {
          // Ignored: Check reports it once another process owns the directory.
          WriteText(fd_, path_, absl::StrCat(owner_, "\nrenewed ", n, "\n")).IgnoreError();
        }
      }));
  return absl::OkStatus();
}

absl::Status DirectoryLock::Check() {
  std::lock_guard<std::mutex> lock(mu_);
  if (access(path_.c_str(), F_OK) != 0 && errno == ENOENT) MF_RETURN_IF_ERROR(CreateAgain());
  const std::string text = TextIn(path_);
  if (absl::StartsWith(text, absl::StrCat(owner_, "\n"))) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      directory_, ": this process no longer owns it; ",
      text.empty() ? "its lock file is empty" : absl::StrCat("now ", OwnerOf(text), " does"),
      "; nothing in it was changed"));
}

// A job that starts at the same time either creates the file first, or waits for this one.
absl::Status DirectoryLock::CreateAgain() {
  const absl::StatusOr<int> fd = OpenToOverwrite(path_, ExistingFile::kRefuse);
  if (absl::IsAlreadyExists(fd.status())) return absl::OkStatus();
  MF_RETURN_IF_ERROR(fd.status());
  close(std::exchange(fd_, *fd));
  if (has_flock_ && flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    return SystemError(errno, absl::StrCat(path_, ": flock"));
  }
  return WriteText(fd_, path_, absl::StrCat(owner_, "\n"));
}

DirectoryLock::~DirectoryLock() {
  if (renewing_.joinable()) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      ends_ = true;
    }
    ending_.notify_all();
    renewing_.join();
    // The next owner need not wait for the lease.
    if (Check().ok()) WriteText(fd_, path_, absl::StrCat(kReleased, owner_, "\n")).IgnoreError();
  }
  if (fd_ >= 0) close(fd_);
}

}  // namespace mirrorflow
