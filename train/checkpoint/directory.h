// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint directory. It has one subdirectory per checkpoint, such as `step-000000400`, and a
// lock file. A subdirectory gets its name only after all of its files are durable, and loses it
// before any of them is removed, so a crash at any moment leaves only complete checkpoints.
#ifndef MIRRORFLOW_TRAIN_CHECKPOINT_DIRECTORY_H_
#define MIRRORFLOW_TRAIN_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "train/checkpoint/directory_lock.h"

namespace mirrorflow {

std::string CheckpointPath(absl::string_view directory, int64_t step);

// Returns the steps of the checkpoints in the directory, in ascending order; none if the directory
// does not exist. Returns an error if it is not a directory, and InvalidArgument if it contains
// another program's model.
absl::StatusOr<std::vector<int64_t>> ListCheckpoints(const std::string& directory);

class CheckpointDirectory {
 public:
  // Creates the directory if it is missing, makes this process its owner, checks that files can be
  // created in it, and removes the leftover files of interrupted saves. Returns DeadlineExceeded,
  // naming the owner, if another process still owns it at the timeout.
  static absl::StatusOr<std::unique_ptr<CheckpointDirectory>> Open(
      const std::string& path, const DirectoryLockOptions& lock_options = {});
  ~CheckpointDirectory();
  CheckpointDirectory(const CheckpointDirectory&) = delete;

  const std::string& path() const { return path_; }

  // Creates the checkpoint of `step`. `write` must write its files into the given temporary
  // directory and make them durable. On an error, leaves nothing behind, and keeps an earlier
  // checkpoint of that step. Like RemoveObsolete, returns LostDirectoryError if the directory now
  // has another owner.
  absl::Status Commit(int64_t step, absl::FunctionRef<absl::Status(const std::string&)> write);
  // Declares that training continues from `step`, and marks the later checkpoints that exist now as
  // abandoned: they are damaged.
  absl::Status Abandon(int64_t step);
  // Removes the abandoned checkpoints, and all but the newest `keep` checkpoints up to `step`. Must
  // be called after the checkpoint of `step` was committed. Keeps later checkpoints, which belong
  // to a newer job.
  absl::Status RemoveObsolete(int64_t step, int keep);

 private:
  CheckpointDirectory(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  absl::StatusOr<std::string> TemporaryName(int64_t step, absl::string_view suffix) const;
  // Removes the leftovers of interrupted saves, and restores the checkpoints that they were
  // replacing.
  absl::Status RemoveLeftovers() const;
  absl::Status Remove(int64_t step) const;
  // Implements Commit() for a step that has a checkpoint, on file systems that cannot exchange
  // names.
  absl::Status ReplaceByTwoRenames(int64_t step, const std::string& temporary) const;
  // Removes a checkpoint of `step`, the directory `path`. A crash leaves either the whole
  // directory, or a part of it under a temporary name.
  absl::Status Discard(int64_t step, const std::string& path) const;
  // Makes the checkpoints' names durable.
  absl::Status Sync() const;

  const std::string path_;
  const int fd_;  // the open directory
  std::unique_ptr<DirectoryLock> lock_;
  std::set<int64_t> abandoned_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_DIRECTORY_H_
