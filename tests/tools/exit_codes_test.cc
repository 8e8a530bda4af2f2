// SPDX-License-Identifier: Apache-2.0
//
// Tests the exit codes that programs return for statuses.
#include "distribute/strategy/strategy.h"
#include "framework/runtime/failure.h"
#include "framework/session/session_backend.h"
#include "gtest/gtest.h"
#include "tools/flags/cluster_flags.h"
#include "tools/flags/command_line.h"
#include "train/checkpoint/directory_lock.h"

namespace mirrorflow {
namespace {

class FakeStrategy final : public Strategy {
 public:
  explicit FakeStrategy(int num_workers) : Strategy("FakeStrategy", {}) {
    for (int worker = 0; worker < num_workers; ++worker) {
      topology_.replicas.push_back({.worker = worker, .domain = worker, .device = "CPU:0"});
    }
  }
  const Topology& topology() const override { return topology_; }

 private:
  absl::StatusOr<SessionBackend> MakeBackend() const override {
    return absl::UnimplementedError("fake");
  }

  Topology topology_;
};

// Classifies an error as our programs do. `code` is the exit code of the phase where the error
// occurred.
int ExitCodeOfError(const absl::Status& error, int num_workers, ExitCode code) {
  const FakeStrategy strategy(num_workers);
  return ExitWithError(error, ExitCodeOf(error, strategy, code));
}

int ExitCodeOfProgram(absl::StatusCode status, int num_workers, ExitCode code) {
  return ExitCodeOfError(absl::Status(status, "here: an error"), num_workers, code);
}

constexpr ExitCode kPhases[] = {kExitUsage, kExitBadInput, kExitResources, kExitInternal};

TEST(ExitCodesTest, TimeoutNeverExitsWithUsageOrInputCode) {
  for (const ExitCode code : kPhases) {
    EXPECT_EQ(ExitCodeOfProgram(absl::StatusCode::kDeadlineExceeded, 1, code), kExitInternal);
    EXPECT_EQ(ExitCodeOfProgram(absl::StatusCode::kDeadlineExceeded, 2, code), kExitCluster);
  }
}

TEST(ExitCodesTest, LossOfWorkersExitsWithClusterCode) {
  for (const ExitCode code : kPhases) {
    for (const auto status : {absl::StatusCode::kUnavailable, absl::StatusCode::kAborted,
                              absl::StatusCode::kCancelled}) {
      EXPECT_EQ(ExitCodeOfProgram(status, 2, code), kExitCluster);
    }
  }
}

TEST(ExitCodesTest, ResourceAndInternalErrorsExitWithSeparateCodes) {
  for (const ExitCode code : kPhases) {
    for (const int num_workers : {1, 2}) {
      EXPECT_EQ(ExitCodeOfProgram(absl::StatusCode::kResourceExhausted, num_workers, code),
                kExitResources);
      EXPECT_EQ(ExitCodeOfProgram(absl::StatusCode::kInternal, num_workers, code), kExitInternal);
    }
  }
}

// A launcher restarts the job, which then waits for the other job.
TEST(ExitCodesTest, SingleWorkerExitsWithClusterCodeOnlyIfItLosesCheckpointDirectory) {
  for (const ExitCode code : kPhases) {
    EXPECT_EQ(ExitCodeOfError(LostDirectoryError("saved: lost"), 1, code), kExitCluster);
    EXPECT_EQ(ExitCodeOfError(LostDirectoryError("saved: lost"), 2, code), kExitCluster);
    EXPECT_EQ(ExitCodeOfProgram(absl::StatusCode::kAborted, 1, code), code) << "ESTALE";
  }
}

// Without the mark, the same status codes come from damaged files.
TEST(ExitCodesTest, OnlyNumericErrorsExitWithNumericCode) {
  for (const ExitCode code : kPhases) {
    for (const int num_workers : {1, 2}) {
      for (const absl::Status& error :
           {absl::OutOfRangeError("loss: not finite"), absl::DataLossError("replicas: differ")}) {
        EXPECT_EQ(ExitCodeOfError(error, num_workers, code), code);
        EXPECT_EQ(ExitCodeOfError(NumericError(error), num_workers, code), kExitNumeric);
        const absl::Status of_worker = WithFailure(NumericError(error), {.worker = 1});
        EXPECT_EQ(ExitCodeOfError(of_worker, num_workers, code), kExitNumeric);
      }
    }
  }
}

TEST(ExitCodesTest, OtherErrorsExitWithCodeOfPhase) {
  for (const ExitCode code : kPhases) {
    for (const auto status : {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
                              absl::StatusCode::kDataLoss, absl::StatusCode::kOutOfRange}) {
      EXPECT_EQ(ExitCodeOfProgram(status, 1, code), code);
      EXPECT_EQ(ExitCodeOfProgram(status, 2, code), code);
    }
  }
}

}  // namespace
}  // namespace mirrorflow
