// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/trace.h"

#include <fstream>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/check_trace.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

TraceEvent Span(absl::string_view name, int tid, int64_t start_ns, int64_t duration_ns,
                int pid = 0) {
  return {std::string(name), "kernel", TraceEvent::kSpan, pid, tid, start_ns, duration_ns};
}

TraceEvent Point(TraceEvent::Kind kind, int tid, int64_t start_ns, uint64_t id, int pid = 0) {
  return {"bucket 0", "collective", kind, pid, tid, start_ns, 0, id};
}

json Parsed(const TraceWriter& trace) {
  json parsed = json::parse(trace.ToJson(), nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(parsed.is_discarded()) << trace.ToJson();
  return parsed;
}

TraceWriter TraceOf(std::vector<TraceEvent> events) {
  TraceWriter trace;
  for (TraceEvent& event : events) trace.Add(std::move(event));
  return trace;
}

absl::Status ErrorOf(std::vector<TraceEvent> events) {
  return CheckTrace(TraceOf(std::move(events)));
}

// Returns the trace of one replica's step: kernels nested in a step span, a collective in flight
// from its start to its finish, and a flow between the two.
TraceWriter Step() {
  TraceWriter trace = TraceOf(
      {Span("step", 0, 1'000'000, 10'500),
       Span("MatMul", 0, 1'000'000, 4'001),
       Span("AllReduceStart", 0, 1'004'001, 999),
       Span("AllReduceFinish", 0, 1'009'000, 1'000),
       Point(TraceEvent::kAsyncBegin, 1, 1'004'500, 7),
       Point(TraceEvent::kAsyncEnd, 1, 1'009'500, 7),
       Point(TraceEvent::kFlowStart, 0, 1'004'500, 7),
       Point(TraceEvent::kFlowFinish, 0, 1'009'500, 7),
       {"forms made", "memory", TraceEvent::kCounter, 0, 0, 1'010'000, 0, 0, {{"forms", "3"}}}});
  trace.NameProcess(0, "replica 0 (CPU:0)");
  trace.NameThread(0, 0, "compute");
  trace.NameThread(0, 1, "communicate");
  return trace;
}

TEST(TraceWriterTest, EmptyTraceIsValid) {
  EXPECT_EQ(Parsed(TraceWriter()), json({{"displayTimeUnit", "ms"},
                                         {"otherData", json::object()},
                                         {"traceEvents", json::array()}}));
  EXPECT_TRUE(CheckTrace(TraceWriter()).ok());
}

TEST(TraceWriterTest, DescriptionsAreFileMetadata) {
  TraceWriter trace = Step();
  trace.Describe("clock", "\"late\"");
  EXPECT_EQ(Parsed(trace)["otherData"], json({{"clock", "\"late\""}}));
}

TEST(TraceWriterTest, ProcessAndThreadNamesComeFirstAndInOrder) {
  const json events = Parsed(Step())["traceEvents"];
  EXPECT_EQ(events[0], json({{"name", "process_name"},
                             {"ph", "M"},
                             {"pid", 0},
                             {"tid", 0},
                             {"args", {{"name", "replica 0 (CPU:0)"}}}}));
  EXPECT_EQ(events[1]["name"], "process_sort_index");
  EXPECT_EQ(events[1]["args"], json({{"sort_index", 0}}));
  EXPECT_EQ(events[4]["name"], "thread_name");
  EXPECT_EQ(events[4]["tid"], 1);
  EXPECT_EQ(events[4]["args"], json({{"name", "communicate"}}));
  EXPECT_EQ(events[5]["name"], "thread_sort_index");
  EXPECT_EQ(events[5]["args"], json({{"sort_index", 1}}));
}

TEST(TraceWriterTest, EachEventKindHasItsFields) {
  const json events = Parsed(Step())["traceEvents"];
  std::map<std::string, json> by_phase;
  for (const json& event : events) by_phase[event["ph"]] = event;
  EXPECT_EQ(by_phase.size(), 7u);
  EXPECT_EQ(by_phase["X"], json({{"name", "AllReduceFinish"},
                                 {"cat", "kernel"},
                                 {"ph", "X"},
                                 {"pid", 0},
                                 {"tid", 0},
                                 {"ts", 9.0},
                                 {"dur", 1.0}}));
  json expected = {
      {"name", "bucket 0"}, {"cat", "collective"}, {"pid", 0}, {"tid", 1}, {"id", "7"}};
  expected["ph"] = "b", expected["ts"] = 4.5;
  EXPECT_EQ(by_phase["b"], expected);
  expected["ph"] = "e", expected["ts"] = 9.5;
  EXPECT_EQ(by_phase["e"], expected);
  expected["tid"] = 0;
  expected["ph"] = "s", expected["ts"] = 4.5;
  EXPECT_EQ(by_phase["s"], expected);
  expected["ph"] = "f", expected["ts"] = 9.5, expected["bp"] = "e";
  EXPECT_EQ(by_phase["f"], expected);
  EXPECT_EQ(by_phase["C"], json({{"name", "forms made"},
                                 {"cat", "memory"},
                                 {"ph", "C"},
                                 {"pid", 0},
                                 {"tid", 0},
                                 {"ts", 10.0},
                                 {"args", {{"forms", 3}}}}));
}

TEST(TraceWriterTest, TimestampsStartAtFirstEventAndKeepNanoseconds) {
  const std::string text =
      TraceOf({Span("a", 0, 863'999'999'999'997, 1), Span("b", 1, -1'002, 60'000)}).ToJson();
  EXPECT_THAT(text, HasSubstr("\"ts\":864000000000.999,\"dur\":0.001"));
  EXPECT_THAT(text, HasSubstr("\"ts\":0.0,\"dur\":60.0"));
  EXPECT_THAT(TraceOf({Span("c", 0, std::numeric_limits<int64_t>::min(), 0)}).ToJson(),
              HasSubstr("\"ts\":0.0"));
}

TEST(TraceWriterTest, EscapesNamesAndArguments) {
  TraceEvent event = Span("a\"b\\c\n\xFF", 0, 0, 1);
  event.args = {{"bytes", "4096"}, {"shape\t", "[2,\"x\"]"}};
  TraceWriter trace = TraceOf({event});
  trace.NameProcess(3, "<\"host\">");
  const json events = Parsed(trace)["traceEvents"];
  EXPECT_EQ(events[0]["args"]["name"], "<\"host\">");
  EXPECT_EQ(events[2]["name"], "a\"b\\c\n\uFFFD");
  EXPECT_EQ(events[2]["args"], json({{"bytes", "4096"}, {"shape\t", "[2,\"x\"]"}}));
}

TEST(TraceWriterTest, WrittenFileIsValidJson) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/trace.json");
  ASSERT_TRUE(Step().WriteFile(path).ok());
  std::ifstream in(path);
  EXPECT_EQ(json::parse(in, nullptr, false), Parsed(Step()));
  EXPECT_THAT(Step().WriteFile("/no/such/directory/x"),
              IsError(absl::StatusCode::kNotFound, "/no/such/directory/x", "No such file"));
}

TEST(TraceCheckTest, AcceptsNestedTouchingAndParallelSpans) {
  EXPECT_TRUE(CheckTrace(Step()).ok()) << CheckTrace(Step());
  EXPECT_TRUE(
      CheckTrace(TraceOf({Span("inner", 0, 0, 5), Span("outer", 0, 0, 10), Span("next", 0, 10, 5),
                          Span("empty", 0, 10, 0), Span("other thread", 1, 3, 100),
                          Span("other process", 0, 3, 100, /*pid=*/1)}))
          .ok());
}

TEST(TraceCheckTest, RejectsSpansThatOverlapWithoutNesting) {
  EXPECT_THAT(ErrorOf({Span("late", 2, 5, 6), Span("early", 2, 0, 10)}),
              IsError(kInvalid, "\"late\"", "process 0, thread 2", "end by 10", "got 11"));
  EXPECT_THAT(ErrorOf({Span("outer", 0, 0, 100), Span("a", 0, 10, 10), Span("b", 0, 19, 10)}),
              IsError(kInvalid, "\"b\"", "process 0, thread 0", "overlaps \"a\""));
  EXPECT_THAT(ErrorOf({Span("backwards", 0, 0, -1)}), IsError(kInvalid, "end", "before it starts"));
}

TEST(TraceCheckTest, CollectivesMayOverlapAndReuseIds) {
  EXPECT_TRUE(
      CheckTrace(
          TraceOf({Point(TraceEvent::kAsyncBegin, 0, 0, 1), Point(TraceEvent::kAsyncBegin, 0, 1, 2),
                   Point(TraceEvent::kAsyncEnd, 0, 2, 1), Point(TraceEvent::kAsyncEnd, 0, 3, 2),
                   Point(TraceEvent::kAsyncBegin, 0, 2, 1), Point(TraceEvent::kAsyncEnd, 0, 2, 1),
                   Point(TraceEvent::kAsyncBegin, 0, 0, 1, /*pid=*/1),
                   Point(TraceEvent::kAsyncEnd, 0, 9, 1, /*pid=*/1)}))
          .ok());
}

TEST(TraceCheckTest, RejectsUnmatchedBeginsAndEnds) {
  const TraceEvent begin = Point(TraceEvent::kAsyncBegin, 0, 5, 1);
  const TraceEvent end = Point(TraceEvent::kAsyncEnd, 0, 9, 1);
  EXPECT_THAT(ErrorOf({begin}), IsError(kInvalid, "has no end"));
  EXPECT_THAT(ErrorOf({end}), IsError(kInvalid, "no beginning"));
  EXPECT_THAT(ErrorOf({begin, end, begin}), IsError(kInvalid, "has no end"));
  EXPECT_THAT(ErrorOf({begin, Point(TraceEvent::kAsyncEnd, 0, 4, 1)}),
              IsError(kInvalid, "no beginning"));
  EXPECT_THAT(ErrorOf({begin, end, Point(TraceEvent::kAsyncBegin, 0, 8, 1),
                       Point(TraceEvent::kAsyncEnd, 0, 12, 1)}),
              IsError(kInvalid, "begins again"));
  EXPECT_THAT(ErrorOf({begin, Point(TraceEvent::kAsyncEnd, 0, 9, 2)}), IsError(kInvalid, "has no"));
  EXPECT_THAT(ErrorOf({begin, Point(TraceEvent::kAsyncEnd, 0, 9, 1, /*pid=*/1)}),
              IsError(kInvalid, "has no"));
}

TEST(TraceCheckTest, FlowsMayCrossReplicasButMustBeginAndEndInSpans) {
  const TraceEvent start = Point(TraceEvent::kFlowStart, 0, 5, 1);
  const TraceEvent finish = Point(TraceEvent::kFlowFinish, 2, 20, 1, /*pid=*/1);
  EXPECT_TRUE(
      CheckTrace(TraceOf({Span("a", 0, 0, 10), Span("b", 2, 20, 5, 1), start, finish})).ok());
  EXPECT_THAT(ErrorOf({Span("a", 0, 0, 10), Span("b", 2, 21, 5, 1), start, finish}),
              IsError(kInvalid, "lie within a span"));
  EXPECT_THAT(ErrorOf({Span("a", 0, 0, 10), Span("b", 2, 20, 5, 0), start, finish}),
              IsError(kInvalid, "lie within a span"));
  EXPECT_THAT(ErrorOf({Span("a", 0, 0, 10), start}), IsError(kInvalid, "has no end"));
}

}  // namespace
}  // namespace mirrorflow
