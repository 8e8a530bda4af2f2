// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/failure.h"

#include "framework/core/status.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

TEST(FailureTest, StatusCarriesFailure) {
  const Failure failure{.rank = 3, .worker = 1, .step = 17, .sequence = 4, .name = "a b/c 'd'"};
  const absl::Status status = WithFailure(absl::DataLossError("disk on fire"), failure);
  EXPECT_EQ(absl::Status(status.code(), status.message()), absl::DataLossError("disk on fire"));
  EXPECT_EQ(FailureOf(status), failure);
  EXPECT_EQ(FailureOf(Annotate(status, "here")), failure);
  EXPECT_EQ(failure.ToString(), "rank 3, worker 1, step 17, collective 4, 'a b/c 'd''");
}

TEST(FailureTest, WithFailureFillsInOnlyMissingFields) {
  absl::Status status = WithFailure(absl::DataLossError(""), {.rank = 3, .name = "first"});
  status = WithFailure(status, {.rank = 5, .worker = 2, .name = "second"});
  EXPECT_EQ(FailureOf(status), (Failure{.rank = 3, .worker = 2, .name = "first"}));
}

TEST(FailureTest, StatusHasNoFailureUnlessPayloadParses) {
  EXPECT_EQ(FailureOf(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(WithFailure(absl::OkStatus(), {.rank = 1}), absl::OkStatus());
  EXPECT_EQ(FailureOf(absl::DataLossError("")), std::nullopt);
  for (const char* payload : {"", "1", "1 2 3", "x 2 3 4 name", "1 2 3 99999999999 name"}) {
    absl::Status status = absl::DataLossError("");
    status.SetPayload("mirrorflow/failure", absl::Cord(payload));
    EXPECT_EQ(FailureOf(status), std::nullopt) << payload;
  }
}

TEST(FailureTest, LostWorkerIsRecognisedByCodeAndWorker) {
  const Failure of_worker = {.worker = 1};
  EXPECT_TRUE(IsLostWorker(WithFailure(absl::UnavailableError("gone"), of_worker)));
  EXPECT_TRUE(IsLostWorker(WithFailure(absl::DeadlineExceededError("hangs"), of_worker)));
  EXPECT_FALSE(IsLostWorker(absl::OkStatus()));
  EXPECT_FALSE(IsLostWorker(absl::UnavailableError("of no worker")));
  EXPECT_FALSE(IsLostWorker(WithFailure(absl::UnavailableError("of no worker"), {.step = 1})));
  EXPECT_FALSE(IsLostWorker(WithFailure(absl::InvalidArgumentError("wrong"), of_worker)));
  EXPECT_FALSE(IsLostWorker(NumericError(WithFailure(absl::AbortedError("NaN"), of_worker))));
  EXPECT_FALSE(IsLostWorker(FinalError(WithFailure(absl::AbortedError("its file"), of_worker))));
  EXPECT_EQ(FinalError(absl::OkStatus()), absl::OkStatus());
}

TEST(FailureTest, StatusCarriesCollectivesOfWorkers) {
  const CollectivesByWorker collectives = {{0, 17}, {2, uint64_t{1} << 40}};
  EXPECT_EQ(CollectivesOf(WithCollectives(absl::AbortedError("it fails"), collectives)),
            collectives);
  EXPECT_TRUE(WithCollectives(absl::OkStatus(), collectives).ok());
  EXPECT_TRUE(CollectivesOf(absl::AbortedError("it fails")).empty());
}

}  // namespace
}  // namespace mirrorflow
