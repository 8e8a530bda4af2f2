// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/report/well_formed.h"
#include "tools/report/report.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunData EveryPart() {
  RunData run;
  run.series["loss"] = {{1, 2, 100}, {2, 1, 101}, {3, 0.5, 102}};
  run.series["val_loss"] = {{3, 0.75, 102}};
  run.series["accuracy"] = {{3, 0.875, 102}};
  run.series["learning_rate"] = {{1, 0.1, 100}};
  run.series["ex_per_s"] = {{3, 12'345, 102}};
  run.series["gpu_memory"] = {{3, 1e9, 102}};
  run.facts = {{"strategy", "MirroredStrategy"}, {"replicas", "2"}, {"parameters", "1234567"}};
  run.hparams = {{"optimizer", "adam"}};
  run.texts = {{"notes", "a text"}};
  run.events = {{"2026-01-05T12:00:00Z", "saved", "step 3"}};
  run.checkpoints = {{3, 0, 1, 2, 4'938'268, "2026-01-05T12:00:00Z"}};
  run.timeline = StepTimeline{.step = "step 7",
                              .ms = 12.5,
                              .rows = {"replica 0, compute"},
                              .kinds = {"kernel"},
                              .spans = {{0, 0, 1, 2, "dense"}},
                              .processes = {{"replica 0", 10, 2.5, 5}},
                              .ms_by_op = {{"MatMul", 8}},
                              .step_ms = {12, 12.5, 13}};
  run.finished = true;
  run.files = {"run/events"};
  run.notes = {"run/x: is cut short"};
  return run;
}

TEST(ReportPageTest, HasEveryPartOfTheRun) {
  const std::string page = ReportPage("my run", EveryPart());
  EXPECT_EQ(WellFormed(page), "");
  for (const char* part :
       {"<title>my run</title>", "<h1>my run</h1>", "MirroredStrategy",
        "1970-01-01 00:01:40 to 1970-01-01 00:01:42 UTC",
        // Figures.
        "finished</b><span>state<", "0.5</b><span>last loss, training<",
        "0.75</b><span>last loss, validation<", "0.875</b><span>last accuracy<",
        "12.3k</b><span>examples per second<", "2</b><span>replicas<", "1.23M</b><span>parameters<",
        "3</b><span>steps<", "12.5 ms</b><span>traced step<",
        // Charts.
        "<h2>Losses</h2>", "<h2>Metrics</h2>", "<h2>Learning rate</h2>", "<h2>Throughput</h2>",
        "<h2>Memory</h2>", "training, step 2: 1<",
        // The trace.
        "step 7, 12.5 ms", "dense: 1.000 ms", "10 ms, 80 %", "2.5 ms, 20 %", "5 ms, 40 %",
        ">MatMul<", "median length among 3 traced steps",
        // Tables.
        "4.94 MB", ">optimizer</td><td>adam<", ">a text<", ">saved</td><td>step 3<", "run/events",
        "run/x: is cut short"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

TEST(ReportPageTest, PageIsSelfContained) {
  const std::string page = ReportPage("my run", EveryPart());
  EXPECT_THAT(page, HasSubstr("@media (prefers-color-scheme:dark)"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* part : {"<script", "<link", "<img", "src=", "href=", "url(", "@import"}) {
    EXPECT_THAT(page, Not(HasSubstr(part)));
  }
  // The only address is the SVG namespace.
  EXPECT_EQ(CountOf(page, "http"), CountOf(page, "http://www.w3.org/2000/svg") + 1);
  EXPECT_EQ(CountOf(page, "http-equiv"), 1);
}

TEST(ReportPageTest, TextOfTheFilesIsNotMarkup) {
  const std::string bad = "<b onload=\"x\">&'\xff";
  RunData run = EveryPart();
  run.series = {{bad, {{1, 1, 1}}}, {"loss/" + bad, {{1, 1, 1}}}};
  run.facts = {{bad, bad}, {"strategy", bad}, {"replicas", bad}};
  run.hparams = run.texts = run.facts;
  run.events = {{bad, bad, bad}};
  run.checkpoints[0].time = bad;
  run.timeline->step = run.timeline->rows[0] = run.timeline->spans[0].name = bad;
  run.timeline->processes[0].name = run.timeline->ms_by_op[0].first = bad;
  run.files = run.notes = {bad};
  const std::string page = ReportPage(bad, run);
  EXPECT_EQ(WellFormed(page), "");
  EXPECT_EQ(CountOf(page, "<b onload"), 0);
}

TEST(ReportPageTest, ManyHyperparametersAreCut) {
  RunData run;
  run.hparams.resize(100'000, {"a name", "a value"});
  const std::string page = ReportPage("x", run);
  EXPECT_EQ(WellFormed(page), "");
  EXPECT_EQ(CountOf(page, "<td>a name"), 500);
  EXPECT_THAT(page, HasSubstr("99500 more are not shown"));
}

TEST(ReportPageTest, AnyPartMayBeMissing) {
  EXPECT_EQ(WellFormed(ReportPage("", RunData())), "");
  EXPECT_THAT(ReportPage("x", RunData()), Not(HasSubstr("<h2>Losses")));
  RunData run;
  run.checkpoints = {{40, 1, 1, 2, 100, "t"}};
  EXPECT_THAT(ReportPage("x", run), HasSubstr("40</b><span>steps<"));
}

TEST(ReportPageTest, ShowsHowTheRunEnded) {
  RunData run = EveryPart();
  run.events = {{"t1", "started", "step 0"}, {"t2", "lost", "worker 1"}};
  EXPECT_THAT(ReportPage("x", run), HasSubstr(">failed</b><span>state<"));
  run.events.push_back({"t3", "started", "step 3"});
  EXPECT_THAT(ReportPage("x", run), HasSubstr(">finished</b><span>state<"));
  run.finished = false;
  EXPECT_THAT(ReportPage("x", run), Not(HasSubstr("<span>state<")));
}

TEST(ReportPageTest, NonFiniteValuesAreNamed) {
  RunData run;
  run.series["loss"] = {{1, 1}, {2, NAN}, {3, NAN}};
  const std::string page = ReportPage("x", run);
  EXPECT_THAT(page, HasSubstr("2 not finite"));
  EXPECT_THAT(page, HasSubstr("<b class=\"bad\">nan</b><span>last loss<"));
}

TEST(ReportPageTest, ThroughputComesFromTimesIfFilesHaveNone) {
  RunData run;
  run.series["loss"] = {{0, 1, 100}, {10, 1, 102}, {20, 1, 104}};
  EXPECT_THAT(ReportPage("x", run), HasSubstr("5.00</b><span>steps per second<"));
}

}  // namespace
}  // namespace mirrorflow
