// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/is_error.h"

namespace {
int64_t allocations = 0;
}  // namespace

// These operators count allocations. When GCC 12 inlines them, it sees only one half of each
// new/delete pair and warns.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(size_t size) {
  ++allocations;
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FakeHost final : public ProgressHost {
 public:
  absl::Time Now() override { return absl::FromUnixSeconds(1'767'614'400) + uptime; }
  absl::Duration Uptime() override { return uptime; }
  bool IsTerminal() override { return terminal; }
  bool UseColor() override { return color; }
  int Columns() override { return columns; }
  void Write(absl::string_view text) override { output.append(text.data(), text.size()); }

  // Returns the output since the last call. Replaces the carriage return before a redrawn bar with
  // `<`, and removes the escape sequence that clears the rest of the line.
  std::string Take() {
    const std::string taken = absl::StrReplaceAll(output, {{"\r", "<"}, {"\x1b[K", ""}});
    output.clear();
    return taken;
  }
  std::vector<std::string> TakeLines() { return absl::StrSplit(Take(), '\n', absl::SkipEmpty()); }

  absl::Duration uptime = absl::ZeroDuration();
  bool terminal = false, color = false;
  int columns = 120;
  std::string output;
};

class ProgressTest : public ::testing::Test {
 protected:
  // Runs a step of 64 examples that takes `ms` milliseconds.
  void Step(Progress& progress, double ms, double loss = 0.5) {
    host_.uptime += absl::Milliseconds(ms);
    progress.Step(64, {{"loss", loss}});
  }

  FakeHost host_;
};

TEST_F(ProgressTest, BarShowsRatesRemainingTimeAndMetrics) {
  host_.terminal = true;
  Progress progress(host_, {.epochs = 10});
  progress.BeginEpoch(3, 11);
  EXPECT_EQ(host_.Take(), "<Epoch  3/10    0/11 [--------------------]   0%");
  Step(progress, 5'000);  // the first step compiles
  EXPECT_EQ(host_.Take(), "<Epoch  3/10    1/11 [#-------------------]   9%  loss 0.5");
  Step(progress, 200);
  EXPECT_EQ(host_.Take(),
            "<Epoch  3/10    2/11 [###-----------------]  18%  200 ms/step  320 ex/s  eta 0:01  "
            "loss 0.5");
  Step(progress, 400, 0.25);
  EXPECT_EQ(host_.Take(),
            "<Epoch  3/10    3/11 [#####---------------]  27%  300 ms/step  213 ex/s  eta 0:02  "
            "loss 0.25");
}

TEST_F(ProgressTest, BarIsDrawnAtMostTenTimesPerSecond) {
  host_.terminal = true;
  Progress progress(host_, {});
  progress.BeginEpoch(1, 10'000);
  host_.Take();
  for (int i = 0; i < 2'000; ++i) Step(progress, 1);
  const std::string output = host_.Take();
  EXPECT_EQ(std::count(output.begin(), output.end(), '<'), 20);
}

TEST_F(ProgressTest, StepWithoutOutputDoesNotAllocate) {
  for (bool terminal : {false, true}) {
    host_.terminal = terminal;
    Progress progress(host_, {});
    progress.BeginEpoch(1, 10'000);
    for (int i = 0; i < 150; ++i) Step(progress, 1);
    const int64_t before = allocations;
    for (int i = 0; i < 40; ++i) Step(progress, 1);
    EXPECT_EQ(allocations - before, 0);
  }
}

TEST_F(ProgressTest, FinishedEpochLeavesOneLineWithItsTime) {
  host_.terminal = true;
  Progress progress(host_, {.epochs = 2});
  progress.BeginEpoch(1, 2);
  Step(progress, 1'000);
  Step(progress, 500);
  host_.Take();
  host_.uptime += absl::Seconds(100);  // validation does not count as training time
  progress.EndEpoch({{"val_acc", 0.9}});
  EXPECT_EQ(host_.Take(),
            "<Epoch 1/2   2/2 [####################] 100%  500 ms/step  128 ex/s  time 0:01  "
            "loss 0.5  val_acc 0.9\n");
  progress.BeginEpoch(2, 2);
  EXPECT_EQ(host_.Take(), "<Epoch 2/2   0/2 [--------------------]   0%");
  Step(progress, 250);
  EXPECT_THAT(host_.Take(), HasSubstr("250 ms/step")) << "only a run's first step is not timed";
}

TEST_F(ProgressTest, UnknownTotalsShowElapsedTime) {
  host_.terminal = true;
  Progress bar(host_, {});
  bar.BeginEpoch(1, std::nullopt);
  host_.Take();
  Step(bar, 1'000);
  Step(bar, 2'000);
  EXPECT_THAT(host_.Take(), HasSubstr("<Epoch 1/?   2/?  2000 ms/step  32.0 ex/s  elapsed 0:03"));
  host_.terminal = false;
  host_.uptime = absl::ZeroDuration();
  Progress text(host_, {});
  text.BeginEpoch(1, std::nullopt);
  Step(text, 1'000);
  Step(text, 10'000);
  EXPECT_EQ(host_.Take(),
            "2026-01-05T12:00:11Z worker=0 epoch=1 step=2/? ms_per_step=10000 ex_per_s=6 "
            "elapsed_s=11 loss=0.5\n");
}

TEST_F(ProgressTest, WithoutTerminalPrintsALineEveryTenSecondsAndPerEpoch) {
  Progress progress(host_, {.epochs = 10});
  progress.BeginEpoch(3, 50);
  for (int i = 0; i < 50; ++i) Step(progress, 500, 0.31274);
  progress.EndEpoch({{"acc", 0.8871}});
  EXPECT_THAT(host_.TakeLines(),
              ElementsAre("2026-01-05T12:00:10Z worker=0 epoch=3 step=20/50 ms_per_step=500 "
                          "ex_per_s=128 eta_s=15 loss=0.3127",
                          "2026-01-05T12:00:20Z worker=0 epoch=3 step=40/50 ms_per_step=500 "
                          "ex_per_s=128 eta_s=5 loss=0.3127",
                          "2026-01-05T12:00:25Z worker=0 epoch=3 step=50/50 ms_per_step=500 "
                          "ex_per_s=128 elapsed_s=25 loss=0.3127 acc=0.8871"));
}

TEST_F(ProgressTest, JsonHasSameFieldsAsText) {
  Progress progress(host_, {.format = LogFormat::kJson});
  progress.BeginEpoch(3, 30);
  for (int i = 0; i < 20; ++i) Step(progress, 500, 0.312749);
  progress.Log("a \"line\"");
  const std::vector<std::string> lines = host_.TakeLines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(lines[0], nullptr, false),
            nlohmann::json({{"time", "2026-01-05T12:00:10Z"},
                            {"worker", 0},
                            {"epoch", 3},
                            {"step", 20},
                            {"steps", 30},
                            {"ms_per_step", 500},
                            {"ex_per_s", 128},
                            {"eta_s", 5},
                            {"loss", 0.312749}}));
  EXPECT_EQ(nlohmann::json::parse(lines[1], nullptr, false)["message"], "a \"line\"");
}

TEST_F(ProgressTest, NonFiniteLossIsReportedImmediatelyAndOnce) {
  Progress text(host_, {});
  text.BeginEpoch(1, 937);
  for (int i = 0; i < 411; ++i) Step(text, 1);
  host_.Take();
  Step(text, 1, std::nan(""));
  EXPECT_THAT(host_.TakeLines(), ElementsAre(HasSubstr("warning=\"loss nan at step 412")));
  Step(text, 1, std::nan(""));
  EXPECT_EQ(host_.Take(), "");
}

TEST_F(ProgressTest, WarningNamesMetricAndStepInEveryFormat) {
  const double nan = std::nan(""), inf = INFINITY;
  Progress text(host_, {});
  text.BeginEpoch(2, 9);
  text.Step(64, {{"loss", nan}, {"norm", -inf}});
  EXPECT_THAT(host_.TakeLines(),
              ElementsAre(HasSubstr("epoch=2 step=1/9 loss=nan norm=-inf warning=\"loss nan at "
                                    "step 1 of epoch 2\""),
                          HasSubstr("warning=\"norm -inf at step 1 of epoch 2\"")));

  Progress json(host_, {.format = LogFormat::kJson});
  json.BeginEpoch(2, 9);
  json.Step(64, {{"loss", nan}});
  const auto parsed = nlohmann::json::parse(host_.Take(), nullptr, false);
  EXPECT_EQ(parsed["warning"], "loss nan at step 1 of epoch 2");
  EXPECT_TRUE(parsed["loss"].is_null());

  host_.terminal = true;
  Progress bar(host_, {});
  bar.BeginEpoch(2, 9);
  host_.Take();
  bar.Step(64, {{"loss", nan}});
  EXPECT_EQ(host_.Take(),
            "<loss nan at step 1 of epoch 2\n<Epoch 2/?   1/9 [##------------------]  11%  loss "
            "nan");
}

TEST_F(ProgressTest, ColoursWarningsIfColourIsAllowed) {
  host_.terminal = host_.color = true;
  Progress progress(host_, {});
  progress.BeginEpoch(1, 9);
  progress.Step(64, {{"loss", std::nan("")}});
  EXPECT_THAT(host_.Take(), HasSubstr("<\x1b[31mloss nan at step 1 of epoch 1\x1b[0m\n"));
}

TEST_F(ProgressTest, LogLinesAppearAboveBar) {
  host_.terminal = true;
  Progress progress(host_, {});
  progress.Log("before");
  EXPECT_EQ(host_.Take(), "before\n");
  progress.BeginEpoch(1, 10);
  host_.Take();
  progress.Log("during");
  EXPECT_EQ(host_.Take(), "<during\n<Epoch 1/?    0/10 [--------------------]   0%");
}

TEST_F(ProgressTest, BarFollowsWidthOfTerminal) {
  host_.terminal = true;
  Progress progress(host_, {});
  progress.BeginEpoch(1, 10);
  host_.Take();
  host_.columns = 30;
  Step(progress, 1'000);
  EXPECT_EQ(host_.Take(), "<Epoch 1/?    1/10  10%  loss ");
}

TEST_F(ProgressTest, LeavesCursorAtStartOfLine) {
  host_.terminal = true;
  {
    Progress progress(host_, {});
    progress.BeginEpoch(1, 10);
    host_.Take();
  }
  EXPECT_EQ(host_.Take(), "\n");
  {
    Progress progress(host_, {});
    progress.BeginEpoch(1, 0);
    progress.EndEpoch();
    host_.Take();
  }
  EXPECT_EQ(host_.Take(), "");
}

TEST_F(ProgressTest, BannerDescribesRunAndLastLineItsResult) {
  const RunDescription run = {.version = "0.1",
                              .devices = "CPU:0 CPU:1",
                              .strategy = "MirroredStrategy",
                              .replicas = 2,
                              .global_batch = 256,
                              .per_replica_batch = "128",
                              .parameters = 421'642,
                              .precision = "float32",
                              .log_dir = "logs"};
  const RunResult result = {.best = NamedValue{"acc", 0.9123},
                            .checkpoint = "out/last.safetensors"};

  Progress text(host_, {});
  text.Start(run);
  EXPECT_EQ(host_.Take(),
            "2026-01-05T12:00:00Z worker=0 event=start version=0.1 devices=\"CPU:0 CPU:1\" "
            "strategy=MirroredStrategy replicas=2 global_batch=256 per_replica_batch=128 "
            "parameters=421642 precision=float32 log_dir=logs view=\"tensorboard --logdir logs\" "
            "ex_per_s=\"of all replicas, excluding the first step\"\n");
  host_.uptime += absl::Milliseconds(83'240);
  text.Finish(result);
  EXPECT_EQ(host_.Take(),
            "2026-01-05T12:01:23Z worker=0 event=end total_s=83.2 best_acc=0.9123 "
            "checkpoint=out/last.safetensors\n");

  host_.terminal = true;
  Progress bar(host_, {});
  bar.Start(run);
  EXPECT_EQ(host_.Take(),
            "mirrorflow\n"
            "  version            0.1\n"
            "  devices            CPU:0 CPU:1\n"
            "  strategy           MirroredStrategy\n"
            "  replicas           2\n"
            "  global_batch       256\n"
            "  per_replica_batch  128\n"
            "  parameters         421642\n"
            "  precision          float32\n"
            "  log_dir            logs\n"
            "  view               tensorboard --logdir logs\n"
            "  ex_per_s           of all replicas, excluding the first step\n");
  host_.uptime += absl::Seconds(83);
  bar.Finish(result);
  EXPECT_EQ(host_.Take(), "finished in 1:23  best acc 0.9123  checkpoint out/last.safetensors\n");
}

TEST_F(ProgressTest, OtherWorkersAreSilentByDefault) {
  for (bool terminal : {false, true}) {
    host_.terminal = terminal;
    Progress progress(host_, {.worker = 1});
    progress.Start({.version = "0.1"});
    progress.BeginEpoch(1, 1);
    Step(progress, 20'000, std::nan(""));
    progress.Log("line");
    progress.EndEpoch();
    progress.Finish();
  }
  EXPECT_EQ(host_.Take(), "");
  Progress progress(host_, {.format = LogFormat::kText, .worker = 1});
  progress.Start({.version = "0.1"});
  EXPECT_EQ(host_.Take(), "") << "only worker 0 may print the banner";
  progress.BeginEpoch(1, 1);
  progress.EndEpoch();
  EXPECT_THAT(host_.Take(), HasSubstr("worker=1 epoch=1"));
}

TEST(ParseLogFormatTest, ParsesNamesAndListsThemOnError) {
  EXPECT_EQ(*ParseLogFormat("auto"), LogFormat::kAuto);
  EXPECT_EQ(*ParseLogFormat("bar"), LogFormat::kBar);
  EXPECT_EQ(*ParseLogFormat("text"), LogFormat::kText);
  EXPECT_EQ(*ParseLogFormat("json"), LogFormat::kJson);
  EXPECT_EQ(*ParseLogFormat("off"), LogFormat::kOff);
  EXPECT_THAT(ParseLogFormat("xml").status(),
              IsError(absl::StatusCode::kInvalidArgument, "log_format:", "auto, bar", "got xml"));
}

}  // namespace
}  // namespace mirrorflow
