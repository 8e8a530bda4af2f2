// SPDX-License-Identifier: Apache-2.0
//
// DirectoryLock: makes this process the only owner of a directory, by a file `lock` in it that
// names the owner.
//
// The owner renews the file every few seconds. Another process takes the directory once the owner
// has given it back, or has not renewed the file for half a minute. On the owner's host, flock(2)
// tells sooner: it is free once the owner has ended, and held while the owner lives, even if it is
// paused. Between hosts, flock proves nothing: some file systems have none, some keep it on each
// host, and others hold it for a host that has lost its power.
//
// An owner that was paused or cut off can lose the directory without noticing. So the file has a
// random id, which the owner checks before it renames or removes anything (a fencing token).
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

// The error of a process that has lost its directory to another owner: Aborted, with a mark that
// travels with the status to every worker. The status code alone is ambiguous: a stale NFS file
// handle (ESTALE) is also Aborted, but the next save may succeed.
absl::Status LostDirectoryError(absl::string_view message);
bool IsLostDirectory(const absl::Status& status);

struct DirectoryLockOptions {
  // How long to wait for another owner to release the directory.
  absl::Duration timeout = absl::ZeroDuration();
  // How often the wait is reported.
  absl::Duration report_interval = absl::Seconds(5);
  // How often the owner renews the file.
  absl::Duration renewal = absl::Seconds(5);
  // How long an owner lives that does not renew it. The same for all processes.
  absl::Duration lease = absl::Seconds(30);
};

class DirectoryLock {
 public:
  // Begins the names of the files that an interrupted Acquire leaves; they end with `.tmp`.
  static constexpr absl::string_view kTemporaryPrefix = ".lock.";

  // DeadlineExceeded, naming the owner, if the directory has another one until the timeout. Logs
  // the owner every report_interval of the wait.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Acquire(
      const std::string& directory, const DirectoryLockOptions& options);
  // Gives the directory back.
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;

  // LostDirectoryError, naming the new owner, if the directory has another one now. Other errors
  // mean that the file could not be read. Creates the file again if it was removed and no other
  // process has come. Thread-safe.
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
