// SPDX-License-Identifier: Apache-2.0
//
// Tests that a resumed run ends like an uninterrupted one, wherever the first run ended.
#include "tests/train/trainer/resumed_training.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/crc32c.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow.h"
#include "nlohmann/json.hpp"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/train/trainer/scores.h"
#include "train/checkpoint/directory.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using ResumedTrainingTest = ResumedTraining;

INSTANTIATE_TEST_SUITE_P(Replicas, ResumedTrainingTest, testing::Values(1, 2));

// The run is interrupted or killed at each event in turn.
TEST_P(ResumedTrainingTest, EqualsUninterruptedRunWhereverItEnds) {
  accumulate_steps_ = 2;
  const Dataset dataset = Line().Shuffle(1).Batch(4);
  const FitOptions epochs = {.epochs = 3, .validation = Line(6).Batch(2), .validation_steps = 2};
  FitOptions steps = epochs;
  steps.steps = 9;  // three whole epochs
  for (const FitOptions& options : {epochs, steps}) {
    SetUp();
    const Run whole = Train(dataset, options, /*has_checkpoints=*/false);
    ASSERT_TRUE(whole.result.ok()) << whole.result.status();
    ASSERT_EQ(whole.result->history.size(), 3u);
    for (const char* const kind :
         {"epoch begins", "step begins", "step", "inference", "validation ends", "epoch ends"}) {
      for (const bool kills : {false, true}) {
        for (int n = 1, count = n; count >= n; n += options.steps > 0 ? 3 : 1) {
          SCOPED_TRACE(absl::StrCat(kind, " ", n, kills ? " killed" : ""));
          SetUp();
          count = 0;
          Watch watch(ActAt(kind, n, &count, kills ? Kill : Interrupt));
          FitOptions first = options;
          first.callbacks = {&watch};
          first.checkpoint_every = kills ? 1 : 0;
          const Run part = Train(dataset, first);
          if (!kills) {
            ASSERT_TRUE(part.result.ok()) << part.result.status();
            EXPECT_EQ(part.result->stopped, count >= n ? std::make_optional("test") : std::nullopt);
          }
          const Run rest = Train(dataset, options);
          ASSERT_TRUE(rest.result.ok()) << rest.result.status();
          EXPECT_EQ(rest.variables, whole.variables);
          EXPECT_EQ(rest.result->loss, whole.result->loss);
          if (kills || count < n) continue;
          std::vector<Logs> history = part.result->history;
          history.insert(history.end(), rest.result->history.begin(), rest.result->history.end());
          EXPECT_EQ(history, whole.result->history);
        }
      }
    }
  }
}

// If a run is killed at a step limit or in a validation that stops training, the resumed run still
// ends the epoch.
TEST_P(ResumedTrainingTest, EndOfEpochIsNotLostIfTheRunIsKilled) {
  for (const bool stops : {false, true}) {
    SetUp();
    std::vector<std::string> events;
    bool kill = true;
    Watch watch([&](absl::string_view event, TrainingState& state) {
      if (event == "inference" && kill && state.position.step == 3 - stops)
        return Kill(event, state);
      if (event == "validation ends" && stops && state.position.step == 2) state.StopTraining("x");
      const bool counts = absl::EndsWith(event, "ends");
      if (counts) events.push_back(absl::StrCat(event, " ", state.position.step));
      return absl::OkStatus();
    });
    const FitOptions options = {.epochs = 2,
                                .steps = stops ? 0 : 3,
                                .validation = Line().Batch(5),
                                .validation_steps = 2 * stops,
                                .callbacks = {&watch},
                                .checkpoint_every = 1};
    EXPECT_THAT(Train(Line().Batch(4), options).result.status(),
                IsError(absl::StatusCode::kAborted, "killed"));
    kill = false;
    events.clear();
    const Run rest = Train(Line().Batch(4), options);
    ASSERT_TRUE(rest.result.ok()) << rest.result.status();
    if (stops) {
      EXPECT_THAT(events, ElementsAre("validation ends 2", "validation ends 2", "epoch ends 2",
                                      "train ends 2"));
    } else {
      EXPECT_THAT(events, ElementsAre("validation ends 3", "epoch ends 3", "train ends 3"));
    }
    EXPECT_EQ(rest.result->history.size(), 1u);
  }
}

// The evaluation succeeds whatever the order of the callbacks, and even after a signal, because
// signals do not interrupt the end of training.
TEST_P(ResumedTrainingTest, CallbackMayEvaluateWhenTrainingEnds) {
  for (const bool interrupts : {false, true}) {
    SetUp();
    StopOnSignal first, last;
    Watch watch([&](absl::string_view event, TrainingState& state) -> absl::Status {
      if (event == "step begins" && interrupts) state.Interrupt("test");
      if (event != "train ends") return absl::OkStatus();
      return trainer_->Evaluate(Line().Batch(5)).status();
    });
    for (const std::vector<Callback*>& callbacks :
         {std::vector<Callback*>{&first, &watch}, std::vector<Callback*>{&watch, &last}}) {
      const Run run = Train(Line().Batch(4), {.callbacks = callbacks});
      EXPECT_TRUE(run.result.ok()) << run.result.status();
    }
  }
}

TEST_P(ResumedTrainingTest, InterruptedValidationEndsAfterTheBatch) {
  int count = 0;
  Watch watch([&](absl::string_view event, TrainingState& state) {
    if (event == "inference" && ++count == 2) state.Interrupt("test");
    return absl::OkStatus();
  });
  const Run part =
      Train(Line().Batch(4), {.epochs = 1, .validation = Line().Batch(1), .callbacks = {&watch}});
  ASSERT_TRUE(part.result.ok()) << part.result.status();
  EXPECT_EQ(count, 2) << "validation must stop after 2 of its 10 batches";
  EXPECT_THAT(part.result->history, IsEmpty());
  EXPECT_EQ(part.result->stopped, "test");
  std::vector<std::string> events;
  Watch after([&](absl::string_view event, TrainingState&) {
    events.emplace_back(event);
    return absl::OkStatus();
  });
  const Run rest =
      Train(Line().Batch(4), {.epochs = 1, .validation = Line().Batch(5), .callbacks = {&after}});
  ASSERT_TRUE(rest.result.ok()) << rest.result.status();
  EXPECT_THAT(events,
              ElementsAre("inference", "inference", "validation ends", "epoch ends", "train ends"));
}

// If a callback predicts at the end of an epoch, Predict returns the interruption as an error. The
// resumed run calls OnEpochEnd of all callbacks again, with their states from before the event.
TEST_P(ResumedTrainingTest, InterruptedPredictionOfCallbackRepeatsItsEvent) {
  class Count final : public Callback {
   public:
    absl::Status OnEpochEnd(TrainingState&) override { return ++epochs, absl::OkStatus(); }
    absl::Status SaveState(TrainingState&, StateDict& state) const override {
      state.Set("epochs", epochs);
      return absl::OkStatus();
    }
    absl::Status LoadState(TrainingState&, const StateDict& state) override {
      return state.Get("epochs", &epochs);
    }
    int64_t epochs = 0;
  };
  bool interrupt = true;
  const auto predict = [&](absl::string_view event, TrainingState& state) -> absl::Status {
    if (event == "inference" && interrupt && state.position.epoch == 1) state.Interrupt("test");
    if (event != "epoch ends") return absl::OkStatus();
    return trainer_->Predict(Line().Batch(5)).status();
  };
  Count first, second;
  Watch watch(predict);
  const Run part = Train(Line().Batch(4), {.epochs = 3, .callbacks = {&first, &watch}});
  ASSERT_TRUE(part.result.ok()) << part.result.status();
  EXPECT_EQ(part.result->history.size(), 1u);
  EXPECT_EQ(first.epochs, 2);
  interrupt = false;
  const Run rest = Train(Line().Batch(4), {.epochs = 3, .callbacks = {&second, &watch}});
  ASSERT_TRUE(rest.result.ok()) << rest.result.status();
  EXPECT_EQ(rest.result->history.size(), 2u);
  EXPECT_EQ(second.epochs, 3);
}

TEST_P(ResumedTrainingTest, RepeatedPredictionDrawsTheSameNumbers) {
  std::vector<float> predictions;  // made at the end of each epoch
  int batches = 0, interrupted_batch = -1;
  Watch watch([&](absl::string_view event, TrainingState& state) -> absl::Status {
    if (event == "inference" && ++batches == interrupted_batch) state.Interrupt("test");
    if (event != "epoch ends") return absl::OkStatus();
    MF_ASSIGN_OR_RETURN(const Tensor values, trainer_->Predict(Line().Batch(5)));
    const absl::Span<const float> flat = values.flat<float>();
    predictions.insert(predictions.end(), flat.begin(), flat.end());
    return absl::OkStatus();
  });
  const FitOptions options = {.epochs = 3, .callbacks = {&watch}};
  ASSERT_TRUE(Train(Line().Batch(4), options).result.ok());
  const std::vector<float> whole = std::exchange(predictions, {});
  EXPECT_EQ(whole.size(), 3u * 10);
  SetUp();
  batches = 0;
  interrupted_batch = 4;  // the second epoch's last batch
  EXPECT_EQ(Train(Line().Batch(4), options).result->stopped, "test");
  ASSERT_TRUE(Train(Line().Batch(4), options).result.ok());
  EXPECT_EQ(predictions, whole);
}

TEST_P(ResumedTrainingTest, StepLimitInsideAnEpochEndsItOnce) {
  std::vector<int64_t> ended;
  Watch watch([&](absl::string_view event, TrainingState& state) {
    if (event == "epoch ends") ended.push_back(state.position.step);
    return absl::OkStatus();
  });
  std::vector<double> losses;
  for (const int64_t steps : {2, 2, 3, 4, 6}) {
    const Run run = Train(Line().Batch(4), {.steps = steps, .callbacks = {&watch}});
    ASSERT_TRUE(run.result.ok()) << run.result.status();
    EXPECT_EQ(run.result->steps, steps);
    losses.push_back(run.result->loss);
  }
  EXPECT_THAT(ended, ElementsAre(3, 6));
  EXPECT_EQ(losses[0], losses[1]) << "the loss must cover the first epoch's two steps";
  SetUp();
  const Run whole = Train(Line().Batch(4), {.epochs = 2});
  EXPECT_EQ(losses[2], whole.result->history[0].at("loss"));
  EXPECT_EQ(losses[4], whole.result->history[1].at("loss"));
}

// Counts the events of each kind, which must be neither lost nor repeated wherever a run ends.
class CountEvents final : public Callback {
 public:
  explicit CountEvents(Trainer*& trainer) : trainer_(trainer) {}
  absl::Status OnTrainBegin(TrainingState&) override { return counts_.clear(), absl::OkStatus(); }
  absl::Status OnEpochBegin(TrainingState&) override { return Count("epoch begins"); }
  absl::Status OnStepBegin(TrainingState&) override { return Count("step begins"); }
  // A prediction in OnStep runs to its end even if training is interrupted.
  absl::Status OnStep(TrainingState& state) override {
    MF_RETURN_IF_ERROR(trainer_->Predict(Line(4).Batch(2)).status());
    return state.position.step % 2 == 0 ? Count("even step") : Count("odd step");
  }
  absl::Status OnValidationEnd(TrainingState&) override { return Count("validation ends"); }
  absl::Status OnEpochEnd(TrainingState&) override { return Count("epoch ends"); }
  absl::Status SaveState(TrainingState&, StateDict& state) const override {
    for (const auto& [name, count] : counts_) state.Set(name, count);
    return absl::OkStatus();
  }
  absl::Status LoadState(TrainingState&, const StateDict& state) override {
    for (const auto& [name, value] : state.values()) {
      MF_RETURN_IF_ERROR(state.Get(name, &counts_[name]));
    }
    return absl::OkStatus();
  }
  const std::map<std::string, int64_t>& counts() const { return counts_; }

 private:
  absl::Status Count(const std::string& event) { return ++counts_[event], absl::OkStatus(); }

  Trainer*& trainer_;
  std::map<std::string, int64_t> counts_;
};

TEST_P(ResumedTrainingTest, EachEventOccursOnceWhereverARunEnds) {
  for (const bool is_first : {true, false}) {
    const auto train = [&](absl::string_view kind, int n, bool kills, int* count) {
      Watch watch(ActAt(kind, n, count, kills ? Kill : Interrupt));
      CountEvents events(trainer_);
      std::vector<Callback*> callbacks = {&events, &watch};
      if (is_first) std::swap(callbacks[0], callbacks[1]);
      const Run run = Train(Line().Batch(4), {.epochs = 2,
                                              .validation = Line(6).Batch(2),
                                              .validation_steps = 2,
                                              .callbacks = callbacks,
                                              .checkpoint_every = kills ? 1 : 0});
      return run.result.ok() ? events.counts() : std::map<std::string, int64_t>();
    };
    int count = 0;
    SetUp();
    const std::map<std::string, int64_t> whole = train("", 0, false, &count);
    EXPECT_THAT(whole, ElementsAre(Pair("epoch begins", 2), Pair("epoch ends", 2),
                                   Pair("even step", 3), Pair("odd step", 3),
                                   Pair("step begins", 6), Pair("validation ends", 5)));
    for (const char* const kind :
         {"epoch begins", "step begins", "step", "inference", "validation ends", "epoch ends"}) {
      for (const bool kills : {false, true}) {
        for (int n = 1;; n += kills ? 5 : 2) {
          SCOPED_TRACE(absl::StrCat(kind, " ", n, kills ? " killed" : "", is_first ? "" : " last"));
          SetUp();
          count = 0;
          train(kind, n, kills, &count);
          if (count < n) break;  // no more events of this kind
          int none = 0;
          EXPECT_EQ(train("", 0, false, &none), whole);
        }
      }
    }
  }
}

// Hooks with error feedback carry rounding errors over to the next step, so checkpoints must save
// them.
TEST_P(ResumedTrainingTest, ErrorFeedbackOfHooksIsRestored) {
  const std::pair<const char*, GradientReducer> reducers[] = {
      {"AllReduce", hooks::AllReduce()},
      {"Bf16Compress", hooks::Bf16Compress()},
      {"Fp16Compress", hooks::Fp16Compress()},
      {"PowerSGD", hooks::PowerSGD({.start_powersgd_iter = 1})},
      {"Adasum", hooks::Adasum()}};
  for (const auto& [name, reducer] : reducers) {
    SCOPED_TRACE(name);
    SetUp();
    reduce_ = reducer;
    const Run whole = Train(Line().Batch(4), {.epochs = 2}, /*has_checkpoints=*/false);
    ASSERT_TRUE(whole.result.ok()) << whole.result.status();
    for (const int64_t steps : {2, 4}) {
      ASSERT_TRUE(Train(Line().Batch(4), {.steps = steps}).result.ok());
    }
    const Run rest = Train(Line().Batch(4), {.epochs = 2});
    ASSERT_TRUE(rest.result.ok()) << rest.result.status();
    EXPECT_EQ(rest.start.step, 4);
    EXPECT_EQ(rest.variables, whole.variables);
  }
}

// The stop must persist whether or not a checkpoint of the step already exists.
TEST_P(ResumedTrainingTest, StopBeforeAStepPersists) {
  for (const int64_t every : {1, 2, 3}) {
    SetUp();
    std::vector<int64_t> ended;
    Watch stop([&](absl::string_view event, TrainingState& state) {
      if (event == "step begins" && state.position.step == 2) state.StopTraining("enough");
      if (event == "epoch ends") ended.push_back(state.position.step);
      return absl::OkStatus();
    });
    FitOptions options = {.epochs = 2, .callbacks = {&stop}, .checkpoint_every = every};
    for (int start = 0; start < 2; ++start) {
      const Run run = Train(Line().Batch(4), options);
      ASSERT_TRUE(run.result.ok()) << run.result.status();
      EXPECT_EQ(run.result->steps, 2);
      EXPECT_EQ(run.result->stopped, "enough");
    }
    EXPECT_THAT(ended, ElementsAre(2)) << "only the epoch in which training stopped must end, once";
  }
}

// A resumed run does not continue an epoch that ended in a stop, even if it does not stop itself.
TEST_P(ResumedTrainingTest, WithoutTheStopTrainingContinuesWithTheNextEpoch) {
  for (const int64_t step : {2, 3}) {
    SetUp();
    std::vector<std::string> ended;
    const auto train = [&](bool stops) {
      Watch count([&](absl::string_view event, TrainingState& state) {
        if (event != "epoch ends") return absl::OkStatus();
        EXPECT_GT(state.logs.at("loss"), 0);
        ended.push_back(absl::StrCat(state.position.epoch, " at ", state.position.step));
        return absl::OkStatus();
      });
      class StopAt final : public Callback {
       public:
        explicit StopAt(int64_t step) : step_(step) {}
        absl::Status OnStep(TrainingState& state) override {
          if (state.position.step == step_) state.StopTraining("enough");
          return absl::OkStatus();
        }

       private:
        const int64_t step_;
      } stop(step);
      FitOptions options = {.epochs = 3, .callbacks = {&count}};
      if (stops) options.callbacks.push_back(&stop);
      return Train(Line().Batch(4), options).result->steps;
    };
    EXPECT_EQ(train(true), step);
    EXPECT_EQ(train(true), step);
    EXPECT_EQ(train(false), step + 2 * 3);
    EXPECT_THAT(ended, ElementsAre(absl::StrCat("0 at ", step), absl::StrCat("1 at ", step + 3),
                                   absl::StrCat("2 at ", step + 6)));
  }
}

// A stop is not lost if the validation that follows it is interrupted.
TEST_P(ResumedTrainingTest, StopBeforeAnInterruptedValidationPersists) {
  bool interrupts = true;
  std::vector<std::string> events;
  Watch watch([&](absl::string_view event, TrainingState& state) {
    if (event == "step" && state.position.step == 2) state.StopTraining("enough");
    if (event == "inference" && interrupts) state.Interrupt("test");
    events.push_back(absl::StrCat(event, " ", state.position.step));
    return absl::OkStatus();
  });
  CsvLog csv(TemporaryPath("stopped.csv"));
  const FitOptions options = {.validation = Line().Batch(10), .callbacks = {&watch, &csv}};
  EXPECT_EQ(Train(Line().Batch(4), options).result->stopped, "test");
  interrupts = false;
  events.clear();
  EXPECT_EQ(Train(Line().Batch(4), options).result->stopped, "enough");
  EXPECT_THAT(events,
              ElementsAre("inference 2", "validation ends 2", "epoch ends 2", "train ends 2"));
  // Rerunning the finished program leaves the log unchanged.
  const std::string log = TextIn(TemporaryPath("stopped.csv"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
  EXPECT_EQ(Train(Line().Batch(4), options).result->stopped, "enough");
  EXPECT_EQ(TextIn(TemporaryPath("stopped.csv")), log);
}

// When the number of replicas changes, the replicas' partial sums are added up, so the training
// metrics continue.
TEST_P(ResumedTrainingTest, ContinuesOnADifferentNumberOfReplicas) {
  const FitOptions options = {.epochs = 2, .validation = Line(6).Batch(2)};
  const Run whole = Train(Line().Batch(4), options, /*has_checkpoints=*/false);
  replicas_ = 3 - GetParam();
  FitOptions first = options;
  first.steps = 2;
  ASSERT_TRUE(Train(Line().Batch(4), first).result.ok());
  replicas_ = GetParam();
  const Run rest = Train(Line().Batch(4), options);
  ASSERT_TRUE(rest.result.ok()) << rest.result.status();
  ASSERT_EQ(rest.result->history.size(), 2u);
  for (const auto& [name, value] : whole.result->history[0]) {
    EXPECT_NEAR(rest.result->history[0].at(name), value, 1e-5) << name;
  }
}

// Version 1 manifests have no state, but training continues from their variables.
TEST_P(ResumedTrainingTest, Version1CheckpointIsResumed) {
  const Run whole = Train(Line().Batch(4), {.epochs = 2}, /*has_checkpoints=*/false);
  ASSERT_TRUE(Train(Line().Batch(4), {.steps = 2}).result.ok());
  const std::string path = absl::StrCat(CheckpointPath(directory_, 2), "/manifest.json");
  nlohmann::json manifest = nlohmann::json::parse(TextIn(path)).at("manifest");
  manifest["version"] = 1;
  for (const char* const added : {"state", "reading_step", "state_data", "state_tensors"}) {
    manifest.erase(added);
  }
  const std::string body = manifest.dump();
  std::ofstream(path) << absl::StrFormat("{\"crc32c\":\"%08x\",\"manifest\":%s}\n", Crc32c(body),
                                         body);
  const Run rest = Train(Line().Batch(4), {.epochs = 2});
  ASSERT_TRUE(rest.result.ok()) << rest.result.status();
  EXPECT_EQ(rest.start.step, 2);
  EXPECT_EQ(rest.variables, whole.variables);
}

TEST_P(ResumedTrainingTest, SaveOfNonFiniteVariablesFails) {
  const auto strategy =
      *MirroredStrategy::Create({.num_cpu_replicas = GetParam(), .pin_threads = false});
  const auto fit = [&](const MinimizeOptions& minimize, const std::vector<float>& rows) {
    SetUp();
    Graph graph;
    const Scope root(&graph);
    const auto scope = strategy->scope();
    const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 1});
    // The square root of 0 is finite, but its derivative is not.
    const Output product = layers::Dense(root, x, 1, nullptr, {.use_bias = false});
    const Output loss = ops::Mean(root, ops::Sqrt(root, ops::Square(root, product)));
    const Operation train = GradientDescent({.learning_rate = 0.01}).Minimize(root, loss, minimize);
    const auto trainer =
        *Trainer::Create(*strategy, graph, {.inputs = {x}, .loss = loss, .train = train});
    const auto checkpoints =
        *CheckpointManager::Create(trainer->session(), {.directory = directory_});
    EXPECT_TRUE(checkpoints->Restore().ok());
    const Tensor values = Tensor::Of<float>({static_cast<int64_t>(rows.size()), 1}, rows);
    return trainer
        ->Fit(Dataset::FromTensors({values}).Batch(1),
              {.checkpoints = checkpoints.get(), .checkpoint_every = 2})
        .status();
  };
  const struct {
    MinimizeOptions minimize;
    std::vector<float> rows;
    std::string step, name;
  } cases[] = {
      // The bad step is either the last one, or an earlier one that makes later losses non-finite.
      {{}, {1, 1, 1, 1, 1, 0}, "step 6: ", "'dense/kernel'"},
      {{}, {1, 1, 1, 1, 1, 0, 1}, "step 7: the loss", "'dense/kernel'"},
      // The bad step is inside an accumulation window, before the update that would apply its
      // gradient.
      {{.accumulate_steps = 4}, {1, 1, 1, 1, 1, 0, 1}, "step 6: ", "'accumulate/dense/kernel'"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(absl::StrCat(c.step, c.name));
    const absl::Status status = fit(c.minimize, c.rows);
    EXPECT_THAT(status,
                IsError(absl::StatusCode::kOutOfRange, "step 6", c.name, "step 4, 2 steps"));
    EXPECT_THAT(std::string(status.message()), testing::StartsWith(c.step));
    EXPECT_THAT(*ListCheckpoints(directory_), ElementsAre(2, 4));
  }
  // With loss scaling, the optimizer skips that window's update, and training continues.
  EXPECT_EQ(fit({.accumulate_steps = 4, .loss_scale = LossScaleOptions()},
                {1, 1, 1, 1, 1, 0, 1, 1, 1, 1}),
            absl::OkStatus());
  EXPECT_THAT(*ListCheckpoints(directory_), ElementsAre(8, 10));
}

TEST_P(ResumedTrainingTest, DifferentDatasetIsReported) {
  ASSERT_TRUE(Train(Line().Shuffle(1).Batch(4), {.steps = 2}).result.ok());
  const Dataset others[] = {Line().Shuffle(1).Batch(5), Line().Shuffle(2).Batch(4),
                            Line(11).Shuffle(1).Batch(4), Line().Batch(4),
                            Line().Shuffle(1).Batch(4).Take(2)};
  for (const Dataset& other : others) {
    const Run run = Train(other, {.steps = 3});
    EXPECT_THAT(run.result.status(), IsError(absl::StatusCode::kInvalidArgument,
                                             "Shuffle(seed 1).Batch(4)", other.ToString()));
  }
  EXPECT_TRUE(Train(others[0], {.steps = 3, .accept_other_dataset = true}).result.ok());
}

TEST_P(ResumedTrainingTest, NullCallbackAndRowsWithoutBatchesAreRejected) {
  Scores scores({});
  const Run null = Train(Line().Batch(4), {.callbacks = {&scores, nullptr}});
  EXPECT_THAT(null.result.status(), IsError(absl::StatusCode::kInvalidArgument, "callbacks[1]"));
  for (const FitOptions& options : {FitOptions(), FitOptions{.validation = Line()}}) {
    const Run rows = Train(options.validation ? Line().Batch(4) : Line(), options);
    EXPECT_THAT(rows.result.status(), IsError(absl::StatusCode::kInvalidArgument, "Batch()"));
  }
}

}  // namespace
}  // namespace mirrorflow
