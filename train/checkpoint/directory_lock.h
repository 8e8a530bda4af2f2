// SPDX-License-Identifier: Apache-2.0
//
// DirectoryLock: makes this process the only owner of a directory, by a file `lock` in it that
// names the owner. Private to the checkpoints.
//
// The file system's lock can be lost silently: the lease of an NFS client that was paused or cut
// off expires, or an operator removes the file. So the file also holds a random number, a fencing
// token, which the owner checks before it renames or removes anything. On file systems without
// locks, such as Lustre without -o flock, the file alone decides: its owner keeps rewriting it, and
// if it has not changed for half a minute, the directory has no owner.
#ifndef MIRRORFLOW_TRAIN_CHECKPOINT_DIRECTORY_LOCK_H_
#define MIRRORFLOW_TRAIN_CHECKPOINT_DIRECTORY_LOCK_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

struct DirectoryLockOptions {
  // How long to wait for another owner to release the directory.
  absl::Duration timeout = absl::ZeroDuration();
  // Receives a line that names the owner, every `report_interval` of the wait. May be null.
  std::function<void(absl::string_view line)> log = nullptr;
  absl::Duration report_interval = absl::Seconds(5);
  // On file systems without locks: how often the owner rewrites the file, and after how long
  // without a change the directory has no owner.
  absl::Duration renewal = absl::Seconds(5);
  absl::Duration lease = absl::Seconds(30);
  // For tests: behave as on a file system without locks.
  bool has_no_flock = false;
};

class DirectoryLock {
 public:
  // DeadlineExceeded, naming the owner, if another process owns the directory until the timeout.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Acquire(
      const std::string& directory, const DirectoryLockOptions& options);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;

  // Aborted, naming the new owner, unless this process still owns the directory. Recreates the
  // file if it was removed and no other process has taken over. Thread-safe.
  absl::Status Check();

 private:
  DirectoryLock(std::string directory, const DirectoryLockOptions& options);
  // Whether the directory is free for this process. Clears has_flock_ if flock is unsupported.
  absl::StatusOr<bool> TryLock();
  // Whether the file is empty, released, or unchanged for as long as a lease.
  absl::StatusOr<bool> HasNoOwner();
  absl::Status WriteOwner();
  absl::Status StartRenewing();
  absl::Status CreateAgain();  // requires mu_

  const std::string directory_, path_;
  const DirectoryLockOptions options_;
  bool has_flock_ = true;
  int fd_ = -1;        // guarded by mu_ once Acquire has returned
  std::string owner_;  // the text in the file
  // On file systems without locks: the contents of another owner's file, and since when.
  std::string seen_;
  MonotonicTime seen_since_;
  std::mutex mu_;
  std::condition_variable ending_;
  bool ends_ = false;  // guarded by mu_
  std::thread renewing_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_DIRECTORY_LOCK_H_
