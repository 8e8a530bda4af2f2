// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "framework/proto/trace.pb.h"
#include "framework/workers/gather_trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

TraceWriter Example(int64_t begin_ns) {
  TraceWriter trace;
  trace.NameProcess(3, "worker 1, replica 3 (CPU:0)");
  trace.NameThread(3, 0, "compute");
  trace.NameThread(3, 1, "communicate");
  const uint64_t id = uint64_t{3} << 48 | 17;
  trace.Add({.name = "dense/MatMul",
             .category = "kernel",
             .pid = 3,
             .start_ns = begin_ns,
             .duration_ns = 900,
             .args = {{"op", "MatMul"}, {"bytes", "4096"}}});
  // This event starts before the previous one, as the event of a whole step does.
  trace.Add({.name = "step 1\xff", .category = "step", .pid = 3, .start_ns = begin_ns - 5});
  for (const auto kind : {TraceEvent::kAsyncBegin, TraceEvent::kAsyncEnd, TraceEvent::kFlowStart,
                          TraceEvent::kFlowFinish}) {
    trace.Add({"bucket 0", "collective", kind, 3, 1, begin_ns + kind, 0, id, {{"bytes", "8"}}});
  }
  return trace;
}

TEST(TraceProtoTest, MergedTraceIsShiftedToTheOtherClock) {
  constexpr int64_t kNow = 1'764'000'000'000'000'000, kOffset = 7'000'000'123;
  proto::Trace received;
  ASSERT_TRUE(received.ParseFromString(TraceToProto(Example(kNow + kOffset)).SerializeAsString()));
  TraceWriter merged;
  ASSERT_TRUE(MergeTrace(received, kOffset, &merged).ok());
  EXPECT_EQ(merged.ToJson(), Example(kNow).ToJson());
  // ToJson's times count from the first event, so the absolute time is compared separately.
  EXPECT_EQ(merged.events()[0].start_ns, kNow);
}

TEST(TraceProtoTest, EventsTakeFewBytes) {
  const size_t one = TraceToProto(Example(1)).ByteSizeLong();
  TraceWriter many = Example(1);
  for (int i = 1; i < 100; ++i) {
    const TraceWriter more = Example(i * 1'000'000);
    for (const TraceEvent& event : more.events()) many.Add(event);
  }
  const size_t events = many.events().size();
  EXPECT_LT(TraceToProto(many).ByteSizeLong(), one + events * 36);
}

TEST(TraceProtoTest, MalformedTraceIsAnError) {
  TraceWriter merged;
  proto::Trace trace = TraceToProto(Example(1));
  trace.mutable_events(0)->set_args(1, 99);
  EXPECT_THAT(MergeTrace(trace, 0, &merged),
              IsError(absl::StatusCode::kInvalidArgument, "string index", "99"));
  trace = TraceToProto(Example(1));
  trace.mutable_events(1)->set_kind(TraceEvent::kCounter + 1);
  EXPECT_THAT(MergeTrace(trace, 0, &merged),
              IsError(absl::StatusCode::kInvalidArgument, "event kind", "6"));
}

}  // namespace
}  // namespace mirrorflow
