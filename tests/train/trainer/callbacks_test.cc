// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/callbacks.h"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/train/trainer/scores.h"
#include "tools/report/read_run.h"
#include "train/checkpoint/variables_file.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/optimizers/optimizers.h"
#include "train/optimizers/schedules.h"
#include "train/trainer/tensor_board.h"
#include "train/trainer/trainer.h"

namespace mirrorflow {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;

// Trains w with a constant gradient: each epoch is one step, which changes w by the learning rate.
class CallbacksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    strategy_ = *MirroredStrategy::Create({.num_cpu_replicas = 2, .pin_threads = false});
    const Scope root(&graph_);
    const auto scope = strategy_->scope();
    const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 1});
    const Output loss =
        ops::Mean(root,
                  layers::Dense(root, x, 1, nullptr,
                                {.use_bias = false, .kernel_initializer = initializers::Zeros()}),
                  {0, 1});
    const Operation train =
        GradientDescent({.learning_rate = schedules::Adjustable(1)}).Minimize(root, loss);
    auto trainer =
        Trainer::Create(*strategy_, graph_, {.inputs = {x}, .loss = loss, .train = train});
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    trainer_ = *std::move(trainer);
  }

  absl::StatusOr<TrainResult> Fit(int64_t epochs, std::vector<Callback*> callbacks) {
    return trainer_->Fit(Ones(), {.epochs = epochs, .callbacks = std::move(callbacks)});
  }

  static Dataset Ones() {
    return Dataset::FromTensors({Tensor::Of<float>({2, 1}, {1, 1})}).Batch(2);
  }

  float Kernel() { return trainer_->session().ReadVariable("dense/kernel")->flat<float>()[0]; }
  float Rate() { return trainer_->session().ReadVariable("learning_rate")->scalar<float>(); }

  std::unique_ptr<Strategy> strategy_;
  Graph graph_;
  std::unique_ptr<Trainer> trainer_;
};

std::string ContentsOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(MonitorTest, DirectionFollowsName) {
  Monitor loss("val_loss", MonitorMode::kAuto, 0), accuracy("val_accuracy", MonitorMode::kAuto, 0);
  EXPECT_TRUE(*loss.Improves({{"val_loss", 2}}));
  EXPECT_TRUE(*loss.Improves({{"val_loss", 1}}));
  EXPECT_FALSE(*loss.Improves({{"val_loss", 1}}));
  EXPECT_TRUE(*accuracy.Improves({{"val_accuracy", 0.5}}));
  EXPECT_FALSE(*accuracy.Improves({{"val_accuracy", 0.4}}));
  EXPECT_EQ(accuracy.best(), 0.5);
  Monitor least("accuracy", MonitorMode::kMin, 0.1);
  EXPECT_TRUE(*least.Improves({{"accuracy", 0.5}}));
  EXPECT_FALSE(*least.Improves({{"accuracy", 0.41}}));
  EXPECT_TRUE(*least.Improves({{"accuracy", 0.39}}));
  EXPECT_FALSE(*least.Improves({{"accuracy", std::nan("")}}));
  EXPECT_THAT(loss.Improves({{"loss", 1}, {"error", 2}}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "metric 'val_loss'", "got error, loss",
                      "FitOptions::validation"));
}

TEST_F(CallbacksTest, EarlyStoppingWaitsForItsPatience) {
  Scores scores({5, 4, 4.5, 3, 3, 3, 3});
  EarlyStopping stop({.monitor = "score", .patience = 2});
  const auto result = Fit(7, {&scores, &stop});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 6) << "the best score, 3, is in epoch 4; two worse epochs follow";
  EXPECT_EQ(*result->stopped, "early stopping: score has not improved from 3 for 2 epochs");
  EXPECT_EQ(Kernel(), -6);
}

TEST_F(CallbacksTest, EarlyStoppingRestoresBestWeights) {
  Scores scores({5, 4, 3, 6, 7, 8});
  EarlyStopping stop({.monitor = "score", .patience = 2, .restore_best_weights = true});
  ASSERT_TRUE(Fit(6, {&scores, &stop}).ok());
  EXPECT_EQ(Kernel(), -3);
  // The best weights are restored even if training ends before patience runs out.
  Scores rising({1, 2});
  ASSERT_TRUE(Fit(2, {&rising, &stop}).ok());
  EXPECT_EQ(Kernel(), -4);
}

TEST_F(CallbacksTest, ReduceLROnPlateauFollowsKeras) {
  // The rate is reduced after epochs 3 and 6, each time after two epochs without improvement. Epoch
  // 4 is the cooldown.
  Scores scores({5, 5, 5, 5, 5, 5, 5});
  ReduceLROnPlateau reduce(
      {.monitor = "score", .factor = 0.5, .patience = 2, .cooldown = 2, .min_lr = 0.3});
  std::vector<float> rates;
  const auto result = Fit(7, {&scores, &reduce});
  ASSERT_TRUE(result.ok()) << result.status();
  for (const Logs& logs : result->history) {
    rates.push_back(static_cast<float>(logs.at("learning_rate")));
  }
  EXPECT_THAT(rates, ElementsAre(1, 1, 1, 0.5, 0.5, 0.5, 0.3f));
  EXPECT_FLOAT_EQ(Kernel(), -(3 + 3 * 0.5 + 0.3));
  EXPECT_FLOAT_EQ(Rate(), 0.3f);
  ReduceLROnPlateau increase({.monitor = "score", .factor = 1.5});
  EXPECT_THAT(Fit(1, {&increase}).status(), IsError(absl::StatusCode::kInvalidArgument,
                                                    "ReduceLROnPlateau:", "factor:", "got 1.5"));
  ReduceLROnPlateau other({.variable = "rate"});
  EXPECT_THAT(Fit(1, {&other}).status(), IsError(absl::StatusCode::kInvalidArgument, "Adjustable"));
}

TEST_F(CallbacksTest, ModelCheckpointKeepsTheBest) {
  const std::string best = TemporaryPath("best.safetensors");
  const std::string last = TemporaryPath("last.safetensors");
  Scores scores({0.1, 0.9, 0.5});
  ModelCheckpoint save_best(
      best, {.monitor = "score", .save_best_only = true, .mode = MonitorMode::kMax});
  ModelCheckpoint save_last(last);
  ASSERT_TRUE(Fit(3, {&scores, &save_best, &save_last}).ok());
  ASSERT_TRUE(LoadVariables(best, trainer_->session()).ok());
  EXPECT_EQ(Kernel(), -2);
  ASSERT_TRUE(LoadVariables(last, trainer_->session()).ok());
  EXPECT_EQ(Kernel(), -3);
}

TEST_F(CallbacksTest, CsvLogHasOneLinePerEpoch) {
  const std::string path = TemporaryPath("log.csv");
  Scores scores({0.5, 0.25});
  CsvLog log(path);
  ASSERT_TRUE(Fit(2, {&scores, &log}).ok());
  EXPECT_EQ(ContentsOf(path), "epoch,loss,score\n1,0,0.5\n2,-1,0.25\n");
  CsvLog nowhere("/no/such/folder/log.csv");
  EXPECT_THAT(Fit(1, {&nowhere}).status(),
              IsError(absl::StatusCode::kNotFound, "/no/such", "No such file"));
}

// Another user who can write to the log's folder may plant a link there.
TEST_F(CallbacksTest, CsvLogDoesNotFollowLinks) {
  class Link final : public Callback {
   public:
    Link(std::string target, std::string path)
        : target_(std::move(target)), path_(std::move(path)) {}
    absl::Status OnEpochBegin(TrainingState& state) override {
      if (state.position.epoch == 1) {
        std::filesystem::remove(path_);
        std::filesystem::create_symlink(target_, path_);
      }
      return absl::OkStatus();
    }

   private:
    const std::string target_, path_;
  };
  const std::string victim = WriteTemporary("victim", "kept"), path = TemporaryPath("linked.csv");
  std::filesystem::remove(path);
  std::filesystem::create_symlink(victim, path);
  CsvLog log(path);
  ASSERT_TRUE(Fit(1, {&log}).ok());
  EXPECT_FALSE(std::filesystem::is_symlink(path)) << "the log must replace the link";
  Link link(victim, path);
  const absl::Status status = Fit(3, {&link, &log}).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kFailedPrecondition, path));
  EXPECT_EQ(ContentsOf(victim), "kept");
}

TEST_F(CallbacksTest, ProgressBarShowsEpochs) {
  testing::internal::CaptureStderr();
  Scores scores({0.5, 0.25});
  ProgressBar progress(LogFormat::kText);
  ASSERT_TRUE(Fit(2, {&scores, &progress}).ok());
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, ContainsRegex("epoch=1 step=1/1 .*score=0.5"));
  EXPECT_THAT(text, ContainsRegex("epoch=2 step=1/1 .*loss=-1.*score=0.25"));
}

TEST_F(CallbacksTest, TensorBoardLogsValuesOfStepsAndEpochs) {
  const std::string folder = TemporaryPath("logs");
  std::filesystem::remove_all(folder);
  Scores scores({0.5, 0.25});
  TensorBoard board(folder, {.update_freq = 1, .histogram_freq = 1});
  const auto result =
      trainer_->Fit(Ones(), {.epochs = 2, .validation = Ones(), .callbacks = {&scores, &board}});
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<EventFile> files;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    files.push_back({.path = file.path().string(), .prefix = ""});
  }
  RunData run;
  ReadEventFiles(files, &run);
  const auto values = [&](const std::string& tag) {
    std::vector<std::pair<double, double>> points;
    for (const Point& point : run.series[tag]) points.emplace_back(point.step, point.value);
    return points;
  };
  using Points = std::vector<std::pair<double, double>>;
  EXPECT_EQ(values("loss/batch"), Points({{1, 0}, {2, -1}}));
  EXPECT_EQ(values("loss/train"), Points({{1, 0}, {2, -1}}));
  EXPECT_EQ(values("loss/val"), Points({{1, -1}, {2, -2}}));
  EXPECT_EQ(values("score/train"), Points({{1, 0.5}, {2, 0.25}}));
  EXPECT_EQ(values("examples_per_second").size(), 2u);
  TensorBoard nowhere("/proc/no/such");
  EXPECT_THAT(Fit(1, {&nowhere}).status(),
              IsError(absl::StatusCode::kNotFound, "/proc/no/such", "No such file"));
}

TEST_F(CallbacksTest, StopOnSignalEndsBeforeNextStep) {
  StopOnSignal stop;
  int64_t steps = 0;
  const auto result =
      trainer_->Fit(Ones().Repeat(),
                    {.steps = 1'000'000, .callbacks = {&stop}, .on_step = [&](int64_t step, float) {
                       steps = step;
                       if (step == 3) raise(SIGTERM);
                       return absl::OkStatus();
                     }});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(stop.signal(), SIGTERM);
  EXPECT_EQ(*result->stopped, "stopped by a signal");
  EXPECT_EQ(result->steps, steps);
  EXPECT_TRUE(result->history.empty()) << "no epoch may have ended";
}

}  // namespace
}  // namespace mirrorflow
