// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench_report.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

const Goal kRatio = {.gate = "C9",
                     .what = "mlp 64, 2 replicas",
                     .figure = {.median = 2.5, .low = 2.25, .high = 2.75},
                     .bound = 1.6,
                     .ours = "1.2 ms",
                     .peer = "tensorflow 3 ms"};

TEST(GoalTest, VerdictFollowsIntervalAndDirectionOfBound) {
  Goal goal = kRatio;
  EXPECT_STREQ(Verdict(goal), "met");
  goal.at_most = true;
  EXPECT_STREQ(Verdict(goal), "missed");
  goal.bound = 2.5;
  EXPECT_STREQ(Verdict(goal), "undecided");
  goal.gated = false;
  EXPECT_STREQ(Verdict(goal), "reported");
}

TEST(TableTest, RowShowsIntervalBoundAndVerdict) {
  EXPECT_EQ(TableRow(kRatio, "met", ""),
            "| C9 | mlp 64, 2 replicas | 1.2 ms | tensorflow 3 ms | 2.5 (2.25 to 2.75) | ≥ 1.6 | "
            "met |");
}

TEST(TableTest, RowOfFigureWithoutGateHasNoBound) {
  Goal goal = kRatio;
  goal.gated = false;
  EXPECT_EQ(TableRow(goal, Verdict(goal), ""),
            "| C9 | mlp 64, 2 replicas | 1.2 ms | tensorflow 3 ms | 2.5 (2.25 to 2.75) |  | "
            "reported |");
}

TEST(TableTest, RowShowsUnitAndOmitsIntervalOfExactFigure) {
  const Goal goal = {.gate = "C17",
                     .what = "page faults",
                     .figure = Estimate::Exactly(12345),
                     .unit = "ns",
                     .bound = 10,
                     .at_most = true};
  EXPECT_EQ(TableRow(goal, "missed", ""),
            "| C17 | page faults |  |  | 12345 ns | ≤ 10 ns | **missed** |");
}

TEST(TableTest, RowGivesReasonForMissingFigure) {
  EXPECT_EQ(TableRow(kRatio, "not measured", "no such peer"),
            "| C9 | mlp 64, 2 replicas | 1.2 ms | tensorflow 3 ms | no such peer | ≥ 1.6 | "
            "**not measured** |");
}

TEST(TableTest, RowOmitsUnsetBound) {
  EXPECT_EQ(TableRow({.gate = "C9", .what = "mlp"}, "not measured", "no such peer"),
            "| C9 | mlp |  |  | no such peer |  | **not measured** |");
}

TEST(TableTest, HeadHasAsManyColumnsAsRow) {
  auto bars = [](const std::string& text) { return std::count(text.begin(), text.end(), '|'); };
  EXPECT_EQ(bars(TableHead()), 2 * bars(TableRow(kRatio, "met", "")));
}

TEST(ReportTest, KeepsOnlyGoalsOfRequestedGates) {
  Report report = Report::Table({"C9", "C10"});
  EXPECT_TRUE(report.Wants("C10"));
  EXPECT_FALSE(report.Wants("C1"));
  report.Add({.gate = "C1", .what = "unasked"});
  report.Add({.gate = "", .what = "of no gate"});
  EXPECT_EQ(report.json(), "");
  report.Add(kRatio);
  report.AddUnmeasured({.gate = "C10", .what = "scaling"}, "a\n\"reason\" | why");
  EXPECT_EQ(report.json(),
            "{\"gate\":\"C9\",\"case\":\"mlp 64, 2 replicas\",\"ours\":\"1.2 ms\",\"peer\":"
            "\"tensorflow 3 ms\",\"value\":2.5,\"low\":2.25,\"high\":2.75,\"unit\":\"\","
            "\"at_least\":1.6,\"verdict\":\"met\"}\n"
            "{\"gate\":\"C10\",\"case\":\"scaling\",\"verdict\":\"not measured\",\"why\":"
            "\"a\\n\\\"reason\\\" | why\"}\n");
}

TEST(ReportTest, TextsOfPeersCannotControlTheTerminal) {
  for (Report report : {Report(), Report::Table({})}) {
    testing::internal::CaptureStdout();
    report.AddUnmeasured({.gate = "C9", .what = "mlp"}, "got '\033[2J'");
    const std::string text = testing::internal::GetCapturedStdout();
    EXPECT_THAT(text, HasSubstr("got '\\033[2J'"));
    EXPECT_EQ(text.find('\033'), std::string::npos);
  }
}

TEST(ReportTest, VersionOfAPeerIsQuotedInJson) {
  Report report;
  report.Add("step/mlp", 1, 64, {}, {.name = "peer", .version = "1\", \"x\": \"\033"});
  EXPECT_THAT(report.json(), HasSubstr(R"("version":"1\", \"x\": \"\u001b","replicas":1)"));
}

TEST(FormatMsTest, SelectsUnitByMagnitude) {
  EXPECT_EQ(FormatMs(0.0000623), "62.3 ns");
  EXPECT_EQ(FormatMs(0.0155), "15.5 µs");
  EXPECT_EQ(FormatMs(1.25), "1.25 ms");
  EXPECT_EQ(FormatMs(1655.4), "1655 ms");
}

}  // namespace
}  // namespace mirrorflow
