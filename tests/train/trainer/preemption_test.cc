// SPDX-License-Identifier: Apache-2.0
//
// //tests/tools:restarts_test sends signals to workers that are processes.
#include "train/trainer/preemption.h"

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "gtest/gtest.h"
#include "tests/support/test_workers.h"

namespace mirrorflow {
namespace {

// The service that the workers coordinate by may have no room for the end of training. No worker
// waits for it then.
TEST(PreemptionHandlerTest, EndsWithoutRoomToTellTheOthers) {
  const Graph graph;
  const auto workers = TestWorkers::Create([&](int) -> const Graph& { return graph; },
                                           {.workers = 2, .replicas = 1});
  ASSERT_TRUE(workers.ok()) << workers.status();
  WorkerGroup& group = *(*workers)->session(0).state().connection().workers();
  const MonotonicTime deadline = MonotonicTime::Now() + absl::Seconds(30);
  absl::Status full;
  for (int i = 0; full.ok(); ++i) full = group.Put(absl::StrCat("key ", i), "", deadline);
  ASSERT_TRUE(absl::IsResourceExhausted(full)) << full;
  {
    const auto handler = PreemptionHandler::Create((*workers)->session(0));
    ASSERT_TRUE(handler.ok()) << handler.status();
    EXPECT_TRUE((*handler)->MayBegin());
  }
  // The other worker learns why.
  WorkerGroup& other = *(*workers)->session(1).state().connection().workers();
  EXPECT_TRUE(absl::IsResourceExhausted(other.Get("never put", deadline).status()));
}

}  // namespace
}  // namespace mirrorflow
