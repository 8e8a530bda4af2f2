// SPDX-License-Identifier: Apache-2.0
//
// Tests that callbacks in a resumed run keep their state and continue their files.
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow.h"
#include "tests/support/event_scalars.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/train/trainer/resumed_training.h"
#include "tests/train/trainer/scores.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using ResumedCallbacksTest = ResumedTraining;

INSTANTIATE_TEST_SUITE_P(Replicas, ResumedCallbacksTest, testing::Values(1, 2));

// A callback never loads the state of a callback with a different file, metric or direction.
TEST_P(ResumedCallbacksTest, BestFileIsReplacedOnlyByABetterOneWhateverOtherCallbacksRun) {
  const std::string first = TemporaryPath("first"), second = TemporaryPath("second");
  std::filesystem::remove(second);
  const auto train = [&](int64_t epochs, bool has_both) {
    Scores scores({7, 1, 8, 3});
    ModelCheckpoint a(first,
                      {.monitor = "score", .save_best_only = true, .mode = MonitorMode::kMin});
    ModelCheckpoint b(second,
                      {.monitor = "score", .save_best_only = true, .mode = MonitorMode::kMax});
    FitOptions options = {.epochs = epochs, .callbacks = {&scores, &b}};
    if (has_both) options.callbacks = {&scores, &a, &b};
    ASSERT_TRUE(Train(Line().Batch(4), options).result.ok());
  };
  train(3, /*has_both=*/true);
  const std::string best = TextIn(second);  // the weights of the third epoch
  train(4, /*has_both=*/false);
  EXPECT_EQ(TextIn(second), best);
}

// The checkpoint keeps the variables that training ended with; the best ones are only part of the
// result.
TEST_P(ResumedCallbacksTest, RestoredBestWeightsAreNotInTheCheckpoint) {
  const auto train = [&](int64_t interrupt_at, int64_t epochs, int64_t patience = 3) {
    Scores scores({5, 4, 6, 6, 3, 6, 6, 6, 2, 6});
    EarlyStopping early({.monitor = "score", .patience = patience, .restore_best_weights = true});
    Watch watch([&](absl::string_view event, TrainingState& state) {
      if (event == "step begins" && state.position.step == interrupt_at) state.Interrupt("test");
      return absl::OkStatus();
    });
    return Train(Line().Batch(4), {.epochs = epochs, .callbacks = {&scores, &early, &watch}});
  };
  const Run whole = train(-1, 10);
  ASSERT_TRUE(whole.result.ok()) << whole.result.status();
  EXPECT_EQ(whole.result->steps, 8 * 3)
      << "the fifth epoch is best; training stops three epochs later";
  SetUp();
  train(4, 10);
  train(10, 10);
  const Run rest = train(-1, 10);
  EXPECT_EQ(rest.variables, whole.variables);
  EXPECT_EQ(rest.result->stopped, whole.result->stopped);
  // Rerunning the finished program gives the same result without further training.
  const Run again = train(-1, 10);
  EXPECT_EQ(again.result->steps, 8 * 3);
  EXPECT_EQ(again.variables, whole.variables);
  EXPECT_EQ(again.result->stopped, whole.result->stopped);
  // With more patience, training continues from its last variables and finds better ones.
  const Run more = train(-1, 10, /*patience=*/4);
  SetUp();
  const Run patient = train(-1, 10, /*patience=*/4);
  EXPECT_EQ(patient.result->steps, 10 * 3);
  EXPECT_EQ(more.result->steps, 10 * 3);
  EXPECT_EQ(more.variables, patient.variables);
}

TEST_P(ResumedCallbacksTest, StoppedTrainingStaysStoppedUntilItsCallbackAllowsMore) {
  const auto train = [&](int64_t patience) {
    Scores scores({1, 2, 2, 2, 2, 2});
    EarlyStopping early({.monitor = "score", .patience = patience});
    std::vector<Callback*> callbacks = {&scores};
    if (patience > 0) callbacks.push_back(&early);
    return Train(Line().Batch(4), {.epochs = 6, .callbacks = callbacks}).result->steps;
  };
  EXPECT_EQ(train(1), 2 * 3);
  EXPECT_EQ(train(1), 2 * 3);
  EXPECT_EQ(train(3), 4 * 3);
  EXPECT_EQ(train(0), 6 * 3) << "training continues without the callback that stopped it";
}

TEST_P(ResumedCallbacksTest, CallbacksKeepTheirState) {
  const std::string best = TemporaryPath("best"), log = TemporaryPath("log.csv");
  const auto train = [&](int64_t epochs) {
    Scores scores({0.5, 0.9, 0.1, 0.2, 0.3, 0.4, 0.4, 0.4});
    ModelCheckpoint checkpoint(
        best, {.monitor = "score", .save_best_only = true, .mode = MonitorMode::kMax});
    ReduceLROnPlateau reduce({.monitor = "score",
                              .factor = 0.5,
                              .patience = 2,
                              .cooldown = 2,
                              .mode = MonitorMode::kMax});
    CsvLog csv(log);
    return Train(Line().Batch(4),
                 {.epochs = epochs, .callbacks = {&scores, &checkpoint, &reduce, &csv}});
  };
  const Run whole = train(8);
  ASSERT_TRUE(whole.result.ok()) << whole.result.status();
  const std::string best_of_whole = TextIn(best), log_of_whole = TextIn(log);
  SetUp();
  std::filesystem::remove(best);
  Run rest;
  for (int64_t epochs = 1; epochs <= 8; ++epochs) rest = train(epochs);
  EXPECT_EQ(rest.variables, whole.variables) << "these include the learning rate";
  EXPECT_EQ(TextIn(best), best_of_whole);
  EXPECT_EQ(TextIn(log), log_of_whole);
}

// The resumed run repeats an interrupted event, so the first call's effects must not persist.
// Otherwise, the learning rate would be reduced twice.
TEST_P(ResumedCallbacksTest, InterruptedEventsLeaveNoTrace) {
  int interrupted_epoch = -1;
  const auto train = [&] {
    Scores scores({0.5, 0.5, 0.5, 0.5, 0.5});
    ReduceLROnPlateau reduce(
        {.monitor = "score", .factor = 0.5, .patience = 1, .mode = MonitorMode::kMax});
    EarlyStopping early({.monitor = "score", .patience = 3, .mode = MonitorMode::kMax});
    Watch watch([&](absl::string_view event, TrainingState& state) -> absl::Status {
      const bool interrupts = state.position.epoch == interrupted_epoch;
      if (event == "inference" && interrupts) state.Interrupt("test");
      if (event != "epoch ends" || !interrupts) return absl::OkStatus();
      return trainer_->Predict(Line().Batch(5)).status();
    });
    return Train(Line().Batch(4), {.epochs = 5, .callbacks = {&scores, &reduce, &early, &watch}});
  };
  const Run whole = train();
  ASSERT_TRUE(whole.result.ok()) << whole.result.status();
  EXPECT_EQ(whole.result->steps, 4 * 3);
  for (int epoch = 0; epoch < 4; ++epoch) {
    SetUp();
    interrupted_epoch = epoch;
    const Run part = train();
    ASSERT_TRUE(part.result.ok()) << part.result.status();
    EXPECT_EQ(part.result->stopped, "test") << epoch;
    interrupted_epoch = -1;
    const Run rest = train();
    EXPECT_EQ(rest.variables, whole.variables) << epoch;
    EXPECT_EQ(rest.result->stopped, whole.result->stopped) << epoch;
  }
}

// Callbacks and datasets can be passed to several calls of Fit. Each call starts fresh.
TEST_P(ResumedCallbacksTest, CallbacksMayBeReused) {
  Scores scores({0.5, 0.9, 0.1, 0.2, 0.3});
  EarlyStopping early({.monitor = "score", .patience = 2, .mode = MonitorMode::kMax});
  CsvLog csv(TemporaryPath("again.csv"));
  const FitOptions options = {.epochs = 5, .callbacks = {&scores, &early, &csv}};
  const Run first = Train(Line().Batch(4), options);
  ASSERT_TRUE(first.result.ok()) << first.result.status();
  EXPECT_EQ(first.result->steps, 4 * 3);
  SetUp();
  const Run second = Train(Line().Batch(4), options);
  EXPECT_EQ(second.result->stopped, first.result->stopped);
  EXPECT_EQ(second.variables, first.variables);
  EXPECT_EQ(second.result->history, first.result->history);
}

// Returns all scalars in the folder's event files except the speed.
std::vector<std::string> Scalars(const std::string& folder) {
  std::vector<std::string> scalars = EventScalars(folder);
  std::erase_if(scalars, [](const std::string& scalar) {
    return absl::StrContains(scalar, "examples_per_second");
  });
  return scalars;
}

// Each value appears once, even at the checkpoint's step, where some values were written before the
// checkpoint.
TEST_P(ResumedCallbacksTest, EventFilesHaveEachValueOnce) {
  const std::string folder = TemporaryPath("board");
  int64_t update_freq = 0;  // values are written only at the end of each epoch
  const auto train = [&](absl::string_view kind, int n, bool kills) {
    int count = 0;
    Watch watch(ActAt(kind, n, &count, kills ? Kill : Interrupt));
    TensorBoard board(folder, {.update_freq = update_freq});
    return Train(Line().Batch(4), {.epochs = 2,
                                   .validation = Line(6).Batch(2),
                                   .validation_steps = 2,
                                   .callbacks = {&board, &watch},
                                   .checkpoint_every = kills ? 1 : 0});
  };
  for (; update_freq <= 2; ++update_freq) {
    SetUp();
    std::filesystem::remove_all(folder);
    ASSERT_TRUE(train("", 0, false).result.ok());
    const std::vector<std::string> whole = Scalars(folder);
    EXPECT_EQ(std::set<std::string>(whole.begin(), whole.end()).size(), whole.size());
    for (const char* const kind : {"step begins", "step", "inference", "epoch ends"}) {
      for (const bool kills : {false, true}) {
        for (int n = 1; n <= 5; n += kills ? 3 : 2) {
          SCOPED_TRACE(absl::StrCat(update_freq, ": ", kind, " ", n, kills ? " killed" : ""));
          SetUp();
          std::filesystem::remove_all(folder);
          train(kind, n, kills);
          ASSERT_TRUE(train("", 0, false).result.ok());
          EXPECT_EQ(Scalars(folder), whole);
        }
      }
    }
  }
}

// The killed run wrote lines after its last checkpoint, the last of them incomplete.
TEST_P(ResumedCallbacksTest, LogContinuesFromTheCheckpoint) {
  const std::string path = TemporaryPath("continued.csv");
  const auto train = [&](int64_t epochs) {
    CsvLog csv(path);
    return Train(Line().Batch(4), {.epochs = epochs, .callbacks = {&csv}});
  };
  ASSERT_TRUE(train(4).result.ok());
  const std::string whole = TextIn(path);
  SetUp();
  ASSERT_TRUE(train(2).result.ok());
  std::ofstream(path, std::ios::app) << "3,9,9\n4,9,9\n5,";
  ASSERT_TRUE(train(4).result.ok());
  EXPECT_EQ(TextIn(path), whole);
}

// Between the two runs, a spreadsheet program saved the log.
TEST_P(ResumedCallbacksTest, LogSavedByAnotherProgramKeepsItsLines) {
  const std::string path = TemporaryPath("edited.csv");
  const auto train = [&](int64_t epochs) {
    CsvLog csv(path);
    return Train(Line().Batch(4), {.epochs = epochs, .callbacks = {&csv}});
  };
  ASSERT_TRUE(train(4).result.ok());
  const std::string whole = TextIn(path);
  for (const char* const end : {"\r", "\r\n"}) {
    SetUp();
    ASSERT_TRUE(train(2).result.ok());
    const std::string lines = absl::StrReplaceAll(TextIn(path), {{"\n", end}});
    std::ofstream(path, std::ios::binary) << "\xef\xbb\xbf" << lines;
    ASSERT_TRUE(train(4).result.ok());
    EXPECT_EQ(TextIn(path), whole);
  }
}

TEST_P(ResumedCallbacksTest, LargeLogIsRejectedOnResume) {
  const std::string path = TemporaryPath("huge.csv");
  const auto train = [&](int64_t epochs) {
    CsvLog csv(path);
    return Train(Line().Batch(4), {.epochs = epochs, .callbacks = {&csv}}).result.status();
  };
  ASSERT_EQ(train(2), absl::OkStatus());
  std::filesystem::resize_file(path, (16 << 20) + 1);
  const absl::Status status = train(4);
  EXPECT_THAT(status, IsError(absl::StatusCode::kResourceExhausted, path));
}

// Each callback finds its own state even if folders have unusual names or two callbacks are equal.
TEST_P(ResumedCallbacksTest, EachCallbackFindsItsOwnState) {
  class Named final : public Callback {
   public:
    Named(std::string key, int64_t value) : key_(std::move(key)), value_(value) {}
    absl::Status SaveState(TrainingState&, StateDict& state) const override {
      state.Set("value", value_);
      return absl::OkStatus();
    }
    absl::Status LoadState(TrainingState&, const StateDict& state) override {
      return state.Get("value", &value_);
    }
    std::string state_key() const override { return key_; }
    int64_t value() const { return value_; }

   private:
    const std::string key_;
    int64_t value_;
  };
  const std::vector<std::string> keys = {"",       "a",     "a",    "a/b",
                                         "a.b",    "a#2",   "\xff", "\xfe/",
                                         "a\nb\"", "\\xff", "/",    std::string(1, '\0')};
  const auto train = [&](int64_t steps, int64_t factor) {
    std::vector<std::unique_ptr<Named>> callbacks;
    FitOptions options = {.steps = steps};
    for (size_t i = 0; i < keys.size(); ++i) {
      callbacks.push_back(std::make_unique<Named>(keys[i], factor * static_cast<int64_t>(i + 1)));
      options.callbacks.push_back(callbacks.back().get());
    }
    const Run run = Train(Line().Batch(4), options);
    EXPECT_TRUE(run.result.ok()) << run.result.status();
    std::vector<int64_t> values;
    for (const auto& callback : callbacks) values.push_back(callback->value());
    return values;
  };
  const std::vector<int64_t> saved = train(1, 1);
  EXPECT_EQ(train(2, 0), saved);
}

TEST_P(ResumedCallbacksTest, MissingCallbackOfSavedStateIsReported) {
  EarlyStopping early({.monitor = "loss", .patience = 9});
  CsvLog csv(TemporaryPath("missing.csv"));
  ASSERT_TRUE(Train(Line().Batch(4), {.steps = 2, .callbacks = {&early, &csv}}).result.ok());
  ASSERT_TRUE(Train(Line().Batch(4), {.steps = 3, .callbacks = {&csv}}).result.ok());
  EXPECT_THAT(log_.text(), HasSubstr("EarlyStopping(min loss)"));
  EXPECT_THAT(log_.text(), Not(HasSubstr("CsvLog")));
}

}  // namespace
}  // namespace mirrorflow
