// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/report/read_run.h"

namespace mirrorflow {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

using Values = std::vector<std::pair<int64_t, double>>;

Values ValuesOf(const RunData& run, const std::string& name) {
  Values values;
  const auto found = run.series.find(name);
  if (found == run.series.end()) return values;
  for (const Point& point : found->second) values.emplace_back(point.step, point.value);
  return values;
}

RunData Read(absl::string_view text, int expected_lines) {
  RunData run;
  EXPECT_EQ(ReadLogLines(text, &run), expected_lines);
  return run;
}

// Lines in the format that Progress writes.
constexpr char kProgress[] =
    R"({"time":"2026-01-05T12:00:00Z","worker":0,"event":"start","strategy":"MirroredStrategy","replicas":2,"ex_per_s":"of all replicas"}
{"time":"2026-01-05T12:00:10Z","worker":0,"epoch":1,"step":4,"steps":5,"ms_per_step":2.5,"ex_per_s":400,"eta_s":1,"loss":2.25}
{"time":"2026-01-05T12:00:11Z","worker":0,"epoch":1,"step":5,"steps":5,"ms_per_step":2.5,"ex_per_s":410,"elapsed_s":1,"loss":2,"val_loss":2.5}
{"time":"2026-01-05T12:00:20Z","worker":0,"epoch":2,"step":3,"steps":5,"ms_per_step":2.5,"ex_per_s":420,"eta_s":0,"loss":null}
{"time":"2026-01-05T12:00:20Z","worker":0,"epoch":2,"step":3,"steps":5,"warning":"loss nan at step 3 of epoch 2"}
{"time":"2026-01-05T12:00:21Z","worker":0,"event":"end","total_s":21.0}
)";

TEST(ReadLogLinesTest, WarningsAndErrorsOfJsonLogAreEvents) {
  const RunData run = Read(
      R"({"time":"2026-01-05T12:00:00.5Z","severity":"INFO","job":"mlp","worker":0,"process":7,"message":"waits"}
[worker 1] {"time":"2026-01-05T12:00:01.5Z","severity":"WARNING","job":"mlp","worker":1,"process":8,"message":"slow"}
{"time":"2026-01-05T12:00:10Z","job":"mlp","worker":0,"epoch":1,"step":4,"steps":5,"loss":2.25}
{"time":"2026-01-05T12:00:12.5Z","severity":"ERROR","job":"mlp","worker":1,"process":8,"message":"INTERNAL why"}
)",
      4);
  EXPECT_EQ(ValuesOf(run, "loss"), (Values{{4, 2.25}}));
  ASSERT_EQ(run.events.size(), 2u);
  EXPECT_EQ(run.events[0].what, "warning");
  EXPECT_EQ(run.events[0].details, "slow");
  EXPECT_EQ(run.events[1].what, "error");
  EXPECT_EQ(run.events[1].details, "INTERNAL why");
}

TEST(ReadLogLinesTest, LabelledTextGivesNothing) {
  const RunData run = Read(
      "2026-01-05T12:00:01.500000Z job=mlp worker=1 WARNING: slow {x}\n"
      "[worker 1] WARNING: slow\n",
      0);
  EXPECT_THAT(run.events, IsEmpty());
}

TEST(ReadLogLinesTest, ProgressGivesSeriesOverAllEpochs) {
  const RunData run = Read(kProgress, 6);
  ASSERT_EQ(ValuesOf(run, "loss").size(), 3u);
  EXPECT_EQ(ValuesOf(run, "loss")[0], std::make_pair(int64_t{4}, 2.25));
  EXPECT_EQ(ValuesOf(run, "loss")[1], std::make_pair(int64_t{5}, 2.0));
  EXPECT_EQ(ValuesOf(run, "loss")[2].first, 8);
  EXPECT_TRUE(std::isnan(ValuesOf(run, "loss")[2].second));
  EXPECT_EQ(run.series.at("loss")[0].time, 1767614410);
  EXPECT_EQ(ValuesOf(run, "val_loss"), (Values{{5, 2.5}}));
  EXPECT_EQ(ValuesOf(run, "ex_per_s"), (Values{{4, 400}, {5, 410}, {8, 420}}));
  EXPECT_EQ(run.series.count("eta_s"), 0u);
  EXPECT_EQ(run.series.count("worker"), 0u);
  EXPECT_THAT(run.facts,
              ElementsAre(Pair("started", "2026-01-05T12:00:00Z"),
                          Pair("strategy", "MirroredStrategy"), Pair("replicas", "2"),
                          Pair("ended", "2026-01-05T12:00:21Z"), Pair("total_s", "21.0")));
  EXPECT_TRUE(run.finished);
  ASSERT_EQ(run.events.size(), 1u);
  EXPECT_EQ(run.events[0].what, "warning");
  EXPECT_EQ(run.events[0].details, "loss nan at step 3 of epoch 2");
}

TEST(ReadLogLinesTest, EpochsOfUnknownLengthFollowEachOther) {
  const RunData run = Read(R"({"time":"t","worker":0,"epoch":1,"step":7,"steps":null,"loss":3}
{"time":"t","worker":0,"epoch":2,"step":2,"steps":null,"loss":1}
{"time":"t","worker":0,"epoch":2,"step":6,"steps":null,"loss":0.5}
)",
                           3);
  EXPECT_EQ(ValuesOf(run, "loss"), (Values{{7, 3}, {9, 1}, {13, 0.5}}));
}

TEST(ReadLogLinesTest, ResumedRunReplacesTheStepsThatItRepeats) {
  const std::string start = R"({"time":"t","worker":0,"event":"start"})";
  auto at = [](int step, double loss) {
    return absl::StrCat(R"({"time":"t","worker":0,"epoch":1,"step":)", step,
                        R"(,"steps":100,"loss":)", loss, "}\n");
  };
  const RunData run =
      Read(absl::StrCat(at(10, 5), at(20, 4), at(30, 3), start, "\n", at(20, 8), at(25, 7)), 6);
  EXPECT_EQ(ValuesOf(run, "loss"), (Values{{10, 5}, {20, 8}, {25, 7}}));
  EXPECT_FALSE(run.finished);
}

TEST(ReadLogLinesTest, EventLogGivesEvents) {
  const RunData run = Read(
      R"({"time":"2026-01-05T12:00:00.000Z","event":"started","step":0,"workers":2,"replicas":4}
{"time":"2026-01-05T12:00:09.123Z","event":"lost","worker":1,"rank":2,"step":9,"message":"gone"}
)",
      2);
  ASSERT_EQ(run.events.size(), 2u);
  EXPECT_EQ(run.events[0].what, "started");
  EXPECT_EQ(run.events[0].details, "step 0, workers 2, replicas 4");
  EXPECT_EQ(run.events[1].details, "worker 1, rank 2, step 9, message gone");
}

TEST(ReadLogLinesTest, LauncherPutsTheWorkerBeforeALine) {
  const RunData run = Read(
      "[0] {\"time\":\"t\",\"worker\":0,\"epoch\":1,\"step\":1,\"loss\":3}\n"
      "[1] {\"time\":\"t\",\"worker\":1,\"epoch\":1,\"step\":1,\"loss\":4}\n",
      2);
  EXPECT_EQ(ValuesOf(run, "loss"), (Values{{1, 3}}));
}

TEST(ReadLogLinesTest, LossLogIsASeries) {
  const RunData run = Read("1 2.5\n2 1.5e-1\n3 nan\n", 3);
  ASSERT_EQ(ValuesOf(run, "loss").size(), 3u);
  EXPECT_EQ(ValuesOf(run, "loss")[1], std::make_pair(int64_t{2}, 0.15));
  EXPECT_TRUE(std::isnan(ValuesOf(run, "loss")[2].second));
}

TEST(ReadLogLinesTest, OtherTextIsIgnored) {
  for (const char* text : {"", "hello\n1 2.5\n", "{", "{}", "[1]", "{\"time\":7,\"event\":\"x\"}",
                           "{\"time\":\"t\",\"event\":7}", "{\"time\":\"t\"", "{\"time\":\"t\"}",
                           "1 2 3", "{\"epoch\":1,\"step\":1,\"loss\":2}", "\xff\xfe{\xff}"}) {
    const RunData run = Read(text, 0);
    EXPECT_THAT(run.series, IsEmpty()) << text;
    EXPECT_THAT(run.events, IsEmpty()) << text;
  }
}

TEST(ReadLogLinesTest, UnexpectedValuesDoNoHarm) {
  const RunData run = Read(
      R"({"time":"t","worker":"x","epoch":9223372036854775807,"step":9223372036854775807,"steps":9223372036854775807,"loss":1}
{"time":"t","worker":0,"epoch":-5,"step":-9,"steps":-1,"loss":{"a":1},"text":"x"}
{"time":"t","event":"saved","step":{"deep":[1,null]}}
)",
      3);
  EXPECT_EQ(ValuesOf(run, "loss").size(), 1u);
  EXPECT_THAT(run.series, Not(Contains(Pair("text", testing::_))));
  EXPECT_EQ(run.events[0].details, "step {\"deep\":[1,null]}");
}

// Printing such a value would overflow the stack.
TEST(ReadLogLinesTest, LineThatNestsTooDeeplyIsIgnored) {
  for (const auto& [open, close] : {std::pair("[", "]"), std::pair(R"({"a":)", "}")}) {
    std::string line = R"({"time":"t","event":"e","a":)";
    for (int i = 0; i < 200'000; ++i) line += open;
    line += "1";
    for (int i = 0; i < 200'000; ++i) line += close;
    const RunData run = Read(absl::StrCat(line, "}\n", R"({"time":"t","event":"e"})", "\n"), 1);
    EXPECT_EQ(run.events.size(), 1u);
  }
}

// nlohmann::ordered_json compares each key with all keys before it.
TEST(ReadLogLinesTest, LineWithTooManyFieldsIsIgnored) {
  std::string line = R"({"time":"t","event":"e")";
  for (int i = 0; i < 1'000'000; ++i) absl::StrAppend(&line, ",\"", i, "\":1");
  EXPECT_THAT(Read(line + "}\n", 0).events, IsEmpty());
}

}  // namespace
}  // namespace mirrorflow
