// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/runtime/trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/check_trace.h"
#include "tests/support/is_error.h"
#include "tools/report/read_run.h"

namespace mirrorflow {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr int64_t kMs = 1'000'000;

// Returns the trace of three steps (12, 10 and 14 ms) of two replicas. In each step, a kernel of
// 4 ms is followed by a collective, which replica 1 waits for.
std::string TraceOfThreeSteps() {
  TraceWriter trace;
  for (int replica = 0; replica < 2; ++replica) {
    trace.NameProcess(replica, absl::StrCat("replica ", replica));
    trace.NameThread(replica, 0, "compute");
    for (int step = 0; step < 3; ++step) {
      const int64_t begin = 100 * kMs * (step + 1), length = (step == 1 ? 10 : 12 + step) * kMs;
      trace.Add({.name = "dense/matmul",
                 .category = "kernel",
                 .pid = replica,
                 .start_ns = begin,
                 .duration_ns = 4 * kMs,
                 .args = {{"op", "MatMul"}}});
      TraceEvent flight{.name = "gradients",
                        .category = "collective",
                        .kind = TraceEvent::kAsyncBegin,
                        .pid = replica,
                        .start_ns = begin + 3 * kMs,
                        .id = static_cast<uint64_t>(step)};
      trace.Add(flight);
      flight.kind = TraceEvent::kAsyncEnd;
      flight.start_ns = begin + 8 * kMs;
      trace.Add(flight);
      if (replica == 1) {
        trace.Add({.name = "finish gradients",
                   .category = "wait",
                   .pid = replica,
                   .start_ns = begin + 4 * kMs,
                   .duration_ns = 3 * kMs});
      }
      trace.Add({.name = absl::StrCat("step ", step + 1),
                 .category = "step",
                 .pid = replica,
                 .start_ns = begin,
                 .duration_ns = length});
    }
  }
  EXPECT_TRUE(CheckTrace(trace).ok());
  return trace.ToJson();
}

TEST(ReadStepTimelineTest, ShowsTheMedianStep) {
  const absl::StatusOr<StepTimeline> timeline = ReadStepTimeline(TraceOfThreeSteps());
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(timeline->step, "step 1");
  EXPECT_DOUBLE_EQ(timeline->ms, 12);
  EXPECT_THAT(timeline->step_ms, ElementsAre(DoubleEq(12), DoubleEq(10), DoubleEq(14)));
}

TEST(ReadStepTimelineTest, HasTheSpansOfThatStepOnly) {
  const absl::StatusOr<StepTimeline> timeline = ReadStepTimeline(TraceOfThreeSteps());
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_THAT(timeline->rows,
              ElementsAre("replica 0, compute", "in flight", "replica 1, compute", "in flight"));
  ASSERT_EQ(timeline->spans.size(), 5u);
  const TimelineSpan& kernel = timeline->spans[0];
  EXPECT_EQ(kernel.name, "dense/matmul");
  EXPECT_EQ(kernel.row, 0);
  EXPECT_EQ(timeline->kinds[kernel.kind], "kernel");
  EXPECT_DOUBLE_EQ(kernel.begin, 0);
  EXPECT_DOUBLE_EQ(kernel.end, 4);
  const TimelineSpan& flight = timeline->spans[4];
  EXPECT_EQ(flight.row, 3);
  EXPECT_EQ(timeline->kinds[flight.kind], "collective");
  EXPECT_NEAR(flight.begin, 3, 1e-9);
  EXPECT_NEAR(flight.end, 8, 1e-9);
}

TEST(ReadStepTimelineTest, SumsTheTimeOfEachReplicaAndOp) {
  const absl::StatusOr<StepTimeline> timeline = ReadStepTimeline(TraceOfThreeSteps());
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ASSERT_EQ(timeline->processes.size(), 2u);
  EXPECT_EQ(timeline->processes[1].name, "replica 1");
  EXPECT_NEAR(timeline->processes[0].kernels, 4, 1e-9);
  EXPECT_NEAR(timeline->processes[0].waiting, 0, 1e-9);
  EXPECT_NEAR(timeline->processes[1].waiting, 3, 1e-9);
  EXPECT_NEAR(timeline->processes[1].in_flight, 5, 1e-9);
  EXPECT_THAT(timeline->ms_by_op, ElementsAre(Pair("MatMul", testing::DoubleNear(8, 1e-9))));
}

TEST(ReadStepTimelineTest, OverlappingFlightsCountOnce) {
  const std::string json = R"({"traceEvents":[
    {"ph":"X","name":"step 1","cat":"step","pid":0,"tid":0,"ts":0,"dur":10000},
    {"ph":"b","name":"a","cat":"collective","pid":0,"tid":0,"ts":1000,"id":"1"},
    {"ph":"b","name":"b","cat":"collective","pid":0,"tid":0,"ts":2000,"id":"2"},
    {"ph":"e","name":"a","cat":"collective","pid":0,"tid":0,"ts":4000,"id":"1"},
    {"ph":"e","name":"b","cat":"collective","pid":0,"tid":0,"ts":7000,"id":"2"}]})";
  const absl::StatusOr<StepTimeline> timeline = ReadStepTimeline(json);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ASSERT_EQ(timeline->processes.size(), 1u);
  EXPECT_NEAR(timeline->processes[0].in_flight, 6, 1e-9);
  EXPECT_EQ(timeline->processes[0].name, "process 0");
}

TEST(ReadStepTimelineTest, LongTraceLeavesOutItsShortestSpans) {
  std::string json = R"({"traceEvents":[{"ph":"X","name":"step 1","cat":"step","ts":0,"dur":1e9})";
  for (int i = 0; i < 7000; ++i) {
    absl::StrAppend(&json, R"(,{"ph":"X","name":"k","cat":"kernel","ts":)", i * 100, R"(,"dur":)",
                    i % 70 + 1, "}");
  }
  const absl::StatusOr<StepTimeline> timeline = ReadStepTimeline(json + "]}");
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(timeline->spans.size() + timeline->spans_left_out, 7000u);
  EXPECT_EQ(timeline->spans_left_out, 1000u);
  for (const TimelineSpan& span : timeline->spans) EXPECT_GT(span.end - span.begin, 0.0105);
}

TEST(ReadStepTimelineTest, OtherTextIsAnError) {
  for (const char* text : {"", "{", "[]", "{\"traceEvents\":7}", "{\"events\":[]}"}) {
    EXPECT_THAT(ReadStepTimeline(text).status(),
                IsError(absl::StatusCode::kInvalidArgument, "not a trace"))
        << text;
  }
  for (const char* text : {R"({"traceEvents":[]})",
                           // Fields of types that never occur in a trace.
                           R"({"traceEvents":[7,{"ph":1},{"ph":"M","name":"process_name","args":[]},
            {"ph":"e","name":"x","id":3},{"ph":"X","cat":"kernel","ts":"x","pid":1e99}]})"}) {
    EXPECT_THAT(ReadStepTimeline(text).status(),
                IsError(absl::StatusCode::kInvalidArgument, "has no step"))
        << text;
  }
}

TEST(ReadStepTimelineTest, TraceThatNestsTooDeeplyIsRefused) {
  std::string text = R"({"traceEvents":)";
  for (int i = 0; i < 200'000; ++i) text += "[";
  EXPECT_THAT(ReadStepTimeline(text).status(),
              IsError(absl::StatusCode::kInvalidArgument, "128 levels"));
}

}  // namespace
}  // namespace mirrorflow
