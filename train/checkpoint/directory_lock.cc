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
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "framework/core/file.h"
#include "framework/core/log.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"

namespace mirrorflow {
namespace {

constexpr char kPayloadType[] = "mirrorflow/lost_directory";

// The start of the text of an owner that has released the directory.
constexpr absl::string_view kReleased = "released by ";
constexpr size_t kMaxTextBytes = 500;
constexpr absl::Duration kPause = absl::Milliseconds(100);

std::string LockPath(const std::string& directory) { return absl::StrCat(directory, "/lock"); }

// Opens the file without O_APPEND, because pwrite(2) would append with it.
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

// Returns the file's current contents, also on network file systems; empty if it does not exist.
absl::StatusOr<std::string> ReadText(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return "";
  if (fd < 0) return SystemError(errno, absl::StrCat(path, ": cannot open"));
  const absl::Cleanup close_file = [fd] { close(fd); };
  char text[kMaxTextBytes];
  const ssize_t size = read(fd, text, sizeof text);
  if (size < 0) return SystemError(errno, absl::StrCat(path, ": cannot read"));
  return std::string(text, size);
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// Returns the line that states that the owner holds a flock on the file, on this boot and device.
// Only processes with the same file system on the same boot of the same kernel can conclude
// from the flock whether the owner is alive. Returns an empty string if boot or device is unknown.
std::string FlockLine(int fd) {
  const absl::StatusOr<std::string> boot = ReadText("/proc/sys/kernel/random/boot_id");
  struct stat info;
  if (!boot.ok() || boot->empty() || fstat(fd, &info) != 0) return "";
  return absl::StrCat("flock on boot ", FirstLine(*boot), ", device ", info.st_dev, "\n");
}

}  // namespace

absl::Status LostDirectoryError(absl::string_view message) {
  absl::Status status = absl::AbortedError(message);
  status.SetPayload(kPayloadType, absl::Cord("1"));
  return status;
}

bool IsLostDirectory(const absl::Status& status) {
  return status.GetPayload(kPayloadType).has_value();
}

// The file that declares this process the owner. Each owner renames its own file to `lock` and
// changes no other file, so an owner that was replaced cannot damage its successor's file.
class DirectoryLock::OwnerFile {
 public:
  // Replaces the file whose text is `replaced` with a file that declares this process the owner. If
  // another process does the same concurrently, Check reports which process has won.
  static absl::StatusOr<std::unique_ptr<OwnerFile>> Create(const std::string& directory,
                                                           const std::string& replaced) {
    uint64_t id;
    if (getrandom(&id, sizeof id, 0) != sizeof id) return SystemError(errno, "getrandom");
    std::unique_ptr<OwnerFile> file(new OwnerFile(directory, absl::StrFormat("%016x", id)));
    MF_RETURN_IF_ERROR(file->Put(replaced));
    return file;
  }
  ~OwnerFile() {
    if (fd_ >= 0) close(fd_);
  }

  absl::Status Check() {
    MF_ASSIGN_OR_RETURN(std::string text, ReadText(path_));
    if (text.empty()) {  // the file was removed
      MF_RETURN_IF_ERROR(Put(""));
      MF_ASSIGN_OR_RETURN(text, ReadText(path_));
      // No other owner exists if the file or its directory is removed again at once.
      if (text.empty()) return SystemError(ENOENT, absl::StrCat(path_, ": removed"));
    }
    if (absl::StartsWith(text, owner_)) return absl::OkStatus();
    return LostDirectoryError(absl::StrCat(directory_,
                                           ": this process no longer owns the "
                                           "directory; the lock file now contains '",
                                           Printable(FirstLine(text)),
                                           "'; nothing in the directory was changed"));
  }

  absl::Status Renew() {
    MF_RETURN_IF_ERROR(Check());
    return Write(absl::StrCat(text_, "renewed ", ++num_renewals_, "\n"));
  }

  absl::Status Release() {
    MF_RETURN_IF_ERROR(Check());
    return Write(absl::StrCat(kReleased, text_));
  }

 private:
  OwnerFile(const std::string& directory, const std::string& id)
      : directory_(directory),
        path_(LockPath(directory)),
        temporary_(absl::StrCat(directory, "/", kTemporaryPrefix, id, ".tmp")) {
    char host[HOST_NAME_MAX + 1] = {};
    gethostname(host, sizeof host - 1);
    owner_ = absl::StrCat("process ", getpid(), " on ", host, " since ",
                          absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()),
                          ", id ", id, "\n");
  }

  absl::Status Put(const std::string& replaced) {
    MF_ASSIGN_OR_RETURN(const int fd, OpenToOverwrite(temporary_, ExistingFile::kRefuse));
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
    const absl::Cleanup remove = [&] { unlink(temporary_.c_str()); };
    // The kernel releases the lock when the process exits, even if it crashes.
    text_ = absl::StrCat(owner_, flock(fd_, LOCK_EX | LOCK_NB) == 0 ? FlockLine(fd_) : "");
    MF_RETURN_IF_ERROR(Write(text_));
    MF_ASSIGN_OR_RETURN(const std::string text, ReadText(path_));
    if (text != replaced) return absl::OkStatus();
    // ENOENT: another process has won, and has removed the losers' leftover files.
    if (rename(temporary_.c_str(), path_.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
    return SystemError(errno, absl::StrCat(path_, ": cannot rename"));
  }

  // Overwrites the file from its start. If the old text is longer, its end remains in the file; no
  // reader needs it.
  absl::Status Write(const std::string& text) {
    const ssize_t written = pwrite(fd_, text.data(), text.size(), 0);
    if (written != static_cast<ssize_t>(text.size())) {
      return WriteError(written < 0 ? errno : ENOSPC, absl::StrCat(path_, ": cannot write"));
    }
    // Other hosts see the new text only after a sync.
    if (fdatasync(fd_) == 0) return absl::OkStatus();
    return WriteError(errno, absl::StrCat(path_, ": cannot fsync"));
  }

  const std::string directory_, path_, temporary_;
  std::string owner_;  // the first line
  std::string text_;   // the text without the renewal
  int fd_ = -1;
  int64_t num_renewals_ = 0;
};

// Watches another owner's file, and takes over the directory once that owner has ended.
class DirectoryLock::Contender {
 public:
  Contender(const std::string& directory, absl::Duration lease)
      : directory_(directory), path_(LockPath(directory)), lease_(lease) {}

  // Returns null while another process owns the directory.
  absl::StatusOr<std::unique_ptr<OwnerFile>> TryToOwn() {
    MF_ASSIGN_OR_RETURN(const int fd, OpenToOverwrite(path_, ExistingFile::kAppend));
    const absl::Cleanup unlock = [fd] { close(fd); };
    bool is_locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    const bool is_held = !is_locked && errno == EWOULDBLOCK;
    const absl::StatusOr<std::string> text = ReadText(path_);
    if (!text.ok()) {  // the owner may still be alive
      owner_ = absl::StrCat("another process (", text.status().message(), ")");
      return nullptr;
    }
    owner_ = text->empty() ? "another process" : Printable(FirstLine(*text));
    is_locked = is_locked && IsSameFile(fd, path_);
    const std::string flock_line = FlockLine(fd);
    const bool is_here = !flock_line.empty() && absl::StrContains(*text, flock_line);
    if (is_here && is_held) return nullptr;
    const bool has_ended =
        !is_held && (text->empty() || absl::StartsWith(*text, kReleased) || (is_here && is_locked));
    if (!has_ended && !IsLeaseOver(*text)) return nullptr;
    MF_ASSIGN_OR_RETURN(std::unique_ptr<OwnerFile> file, OwnerFile::Create(directory_, *text));
    // Without a flock on the old file, another process may also have read the old text and may also
    // replace the file.
    if (!is_locked || !has_ended) absl::SleepFor(std::min(lease_ / 10, absl::Seconds(1)));
    const absl::Status checked = file->Check();
    if (IsLostDirectory(checked)) return nullptr;
    MF_RETURN_IF_ERROR(checked);
    return file;
  }

  // Returns the owner at the last attempt, for messages.
  const std::string& owner() const { return owner_; }

 private:
  bool IsLeaseOver(const std::string& text) {
    const MonotonicTime now = MonotonicTime::Now();
    // After a pause or failed reads, this process cannot tell whether the owner has renewed the
    // file.
    if (text != seen_ || now - seen_at_ > lease_ / 2) seen_since_ = now;
    seen_ = text;
    seen_at_ = now;
    return now - seen_since_ >= lease_;
  }

  const std::string directory_, path_;
  const absl::Duration lease_;
  std::string owner_;
  std::string seen_;  // the text at seen_at_, and at all attempts since seen_since_
  MonotonicTime seen_since_, seen_at_;
};

DirectoryLock::DirectoryLock(std::unique_ptr<OwnerFile> file) : file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Acquire(
    const std::string& directory, const DirectoryLockOptions& options) {
  Contender contender(directory, options.lease);
  const MonotonicTime start = MonotonicTime::Now();
  const MonotonicTime deadline = start + options.timeout;
  for (MonotonicTime next_report = start + options.report_interval;;) {
    MF_ASSIGN_OR_RETURN(std::unique_ptr<OwnerFile> file, contender.TryToOwn());
    if (file != nullptr) {
      std::unique_ptr<DirectoryLock> lock(new DirectoryLock(std::move(file)));
      MF_RETURN_IF_ERROR(lock->StartRenewing(options.renewal));
      return lock;
    }
    const MonotonicTime now = MonotonicTime::Now();
    if (now >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(directory, ": in use by ", contender.owner(),
                       "; choose a checkpoint directory that no other job uses"));
    }
    if (now >= next_report) {
      LogInfo(
          absl::StrCat(directory, ": in use by ", contender.owner(), "; waiting for it to end"));
      next_report += options.report_interval;
    }
    absl::SleepFor(kPause);
  }
}

absl::Status DirectoryLock::StartRenewing(absl::Duration interval) {
  MF_ASSIGN_OR_RETURN(
      renewing_, StartThread("lock", [this, interval] {
        MutexLock lock(&mu_);
        while (!ending_.WaitFor(lock, interval,
                                [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return ends_; })) {
          file_->Renew().IgnoreError();  // Check reports the loss before the next change
        }
      }));
  return absl::OkStatus();
}

absl::Status DirectoryLock::Check() {
  MutexLock lock(&mu_);
  return file_->Check();
}

DirectoryLock::~DirectoryLock() {
  {
    MutexLock lock(&mu_);
    ends_ = true;
  }
  ending_.NotifyAll();
  if (renewing_.joinable()) renewing_.join();
  file_->Release().IgnoreError();  // if this fails, the next owner waits until the lease ends
}

}  // namespace mirrorflow
