// SPDX-License-Identifier: Apache-2.0
//
// DirectoryLock: makes this process the only owner of a directory, through a file `lock` in it that
// names the owner.
//
// The owner renews the file every few seconds. Another process can take over the directory once the
// owner has released it, or has not renewed the file for half a minute. On the owner's host,
// flock(2) shows sooner whether the owner has ended: the owner holds a flock on the file while it
// runs, even if it is paused. Between hosts, a flock proves nothing: some file systems do not
// support it, some keep it local to each host, and others keep the flock of a host that has lost
// power.
//
// An owner that was paused or cut off from the file system can lose the directory without noticing.
// The file therefore contains a random id (a fencing token), which the owner checks before it
// renames or removes anything.
#ifndef MIRRORFLOW_TRAIN_CHECKPOINT_DIRECTORY_LOCK_H_
#define MIRRORFLOW_TRAIN_CHECKPOINT_DIRECTORY_LOCK_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

// Returns the error for a process that has lost its directory to another owner: Aborted, with a
// payload that identifies it on every worker. The code alone would be ambiguous: a stale NFS file
// handle (ESTALE) is also Aborted, but the next save after it may succeed.
absl::Status LostDirectoryError(absl::string_view message);
bool IsLostDirectory(const absl::Status& status);

struct DirectoryLockOptions {
  // How long to wait for another owner to release the directory.
  absl::Duration timeout = absl::ZeroDuration();
  // How often to log the wait.
  absl::Duration report_interval = absl::Seconds(5);
  // How often the owner renews the file.
  absl::Duration renewal = absl::Seconds(5);
  // An owner that has not renewed the file for this long is considered lost. Must be equal in all
  // processes.
  absl::Duration lease = absl::Seconds(30);
};

class DirectoryLock {
 public:
  // The prefix of files that an interrupted Acquire leaves behind; their suffix is `.tmp`.
  static constexpr absl::string_view kTemporaryPrefix = ".lock.";

  // Makes this process the owner. While another process owns the directory, waits, and logs the
  // owner every report_interval. Returns DeadlineExceeded, naming the owner, at the timeout.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Acquire(
      const std::string& directory, const DirectoryLockOptions& options);
  // Releases the directory.
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;

  // Checks that this process still owns the directory. Returns LostDirectoryError, naming the new
  // owner, if it does not. Other errors mean that the file could not be read. If the file was
  // removed and no other process has taken over the directory, creates the file again. Thread-safe.
  absl::Status Check();

 private:
  class OwnerFile;
  class Contender;

  explicit DirectoryLock(std::unique_ptr<OwnerFile> file);
  absl::Status StartRenewing(absl::Duration interval);

  Mutex mu_;
  const std::unique_ptr<OwnerFile> file_ ABSL_PT_GUARDED_BY(mu_);
  CondVar ending_;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  std::thread renewing_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_DIRECTORY_LOCK_H_
