// SPDX-License-Identifier: Apache-2.0
//
// DirectoryLock: makes this process the only owner of a directory, by a file `lock` in it that
// names the owner. Private to the checkpoints.
//
// The file system's lock can be lost without a word: the lease of an NFS client that was paused or
// cut off expires, or an operator removes the file. So the file also holds a random number, and an
// owner checks it before it renames or removes anything (a fencing token). File systems without
// locks, such as Lustre without -o flock, get by with the file alone: its owner keeps changing it,
// and one that has not changed for half a minute has no owner.
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
  // How long to wait for another owner to end.
  absl::Duration timeout = absl::ZeroDuration();
  // Receives a line that names the owner, every `report_interval` of the wait. May be null.
  std::function<void(absl::string_view line)> log = nullptr;
  absl::Duration report_interval = absl::Seconds(5);
  // Without locks of the file system: how often the owner changes the file, and after how long
  // without a change it has no owner.
  absl::Duration renewal = absl::Seconds(5);
  absl::Duration lease = absl::Seconds(30);
  // For tests: as if the file system had no locks.
  bool has_no_flock = false;
};

class DirectoryLock {
 public:
  // DeadlineExceeded, naming the owner, if the directory has another one until the timeout.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Acquire(
      const std::string& directory, const DirectoryLockOptions& options);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;

  // Aborted, naming the new owner, unless this process still owns the directory. Creates the file
  // again if it was removed and no other process has come. Thread-safe.
  absl::Status Check();

 private:
  DirectoryLock(std::string directory, const DirectoryLockOptions& options);
  // Whether the file could be locked. If the file system has no locks, sets has_flock_.
  absl::StatusOr<bool> TryLock();
  // Whether the file has not changed for as long as a lease.
  absl::StatusOr<bool> HasNoOwner();
  absl::Status WriteOwner();
  absl::Status StartRenewing();
  absl::Status CreateAgain();  // requires mu_

  const std::string directory_, path_;
  const DirectoryLockOptions options_;
  bool has_flock_ = true;
  int fd_ = -1;        // guarded by mu_ once it is renewed
  std::string owner_;  // the text in the file
  // The file of another owner without locks, and since when it is the same.
  std::string seen_;
  MonotonicTime seen_since_;
  std::mutex mu_;
  std::condition_variable ending_;
  bool ends_ = false;  // guarded by mu_
  std::thread renewing_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_DIRECTORY_LOCK_H_
