// SPDX-License-Identifier: Apache-2.0
//
// A directory of checkpoints: one subdirectory for each, `step-000000400`, and a lock file. The
// name of a checkpoint appears only once all of it is durable, and disappears before any of it
// does, so that a crash at any moment leaves whole checkpoints only.
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

// Returns the steps of the checkpoints in the directory, in ascending order; none if it does not
// exist. An error if it is not a directory, and InvalidArgument if another program's model is in
// it.
absl::StatusOr<std::vector<int64_t>> ListCheckpoints(const std::string& directory);

class CheckpointDirectory {
 public:
  // Creates the directory if it is missing, makes this process its owner, checks that files can be
  // created in it, and removes what interrupted saves have left. DeadlineExceeded, naming the
  // owner, if another process owns it.
  static absl::StatusOr<std::unique_ptr<CheckpointDirectory>> Open(
      const std::string& path, const DirectoryLockOptions& lock_options = {});
  ~CheckpointDirectory();
  CheckpointDirectory(const CheckpointDirectory&) = delete;

  const std::string& path() const { return path_; }

  // Makes the checkpoint of `step`. `write` puts its files into a temporary directory, and makes
  // them durable. On an error nothing is left, and an earlier checkpoint of that step stays.
  // LostDirectoryError, here and in RemoveObsolete, if the directory has another owner meanwhile.
  absl::Status Commit(int64_t step, absl::FunctionRef<absl::Status(const std::string&)> write);
  // Training goes on from `step`, so later checkpoints that are here now, which are damaged, belong
  // to a past that it leaves.
  absl::Status Abandon(int64_t step);
  // After the checkpoint of `step`: removes those that were abandoned, and those up to `step` but
  // the newest `keep`. Others, of later steps, belong to a newer job and stay.
  absl::Status RemoveObsolete(int64_t step, int keep);

 private:
  CheckpointDirectory(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  absl::StatusOr<std::string> TemporaryName(int64_t step, absl::string_view suffix) const;
  // Removes what interrupted saves have left, and brings back the checkpoints that they were
  // replacing.
  absl::Status RemoveLeftovers() const;
  absl::Status Remove(int64_t step) const;
  // Commit for a step that has a checkpoint, where the file system cannot exchange names.
  absl::Status ReplaceByTwoRenames(int64_t step, const std::string& temporary) const;
  // Removes a directory of that step; a crash leaves it all, or under a temporary name.
  absl::Status Discard(int64_t step, const std::string& path) const;
  // Makes the names of the checkpoints durable.
  absl::Status Sync() const;

  const std::string path_;
  const int fd_;  // of the directory
  std::unique_ptr<DirectoryLock> lock_;
  std::set<int64_t> abandoned_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_DIRECTORY_H_
