// SPDX-License-Identifier: Apache-2.0
//
// Tests several workers in one process, each with its own session. They compute the same results as
// one session with the same number of replicas, agree on the step before it runs, and fail
// together.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/variable_layout.h"
#include "framework/workers/connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "tests/support/test_workers.h"
#include "tools/models/classifiers.h"
#include "train/optimizers/communication_hooks.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr int kWorkers = 2;
constexpr int kReplicas = 2;  // per worker

// The results of a session after some steps.
struct Results {
  std::vector<Tensor> fetches;              // of all steps
  std::map<std::string, Tensor> variables;  // at the end
};

struct Training {
  Graph graph;
  std::vector<Output> feeds, fetches;
  std::vector<Operation> targets;
  std::vector<std::vector<Tensor>> batches;
  std::vector<int64_t> rows;  // per replica; if empty, rows are split evenly
};

absl::StatusOr<Results> Run(const Training& training, Session& session,
                            const RunOptions& options = {}) {
  Results results;
  MF_ASSIGN_OR_RETURN(Step step,
                      session.Prepare(training.feeds, training.fetches, training.targets));
  RunOptions with_rows = options;
  with_rows.replica_rows = training.rows;
  for (const std::vector<Tensor>& batch : training.batches) {
    MF_ASSIGN_OR_RETURN(const StepOutputs outputs, step.Run(batch, with_rows));
    for (const Tensor& output : outputs) {
      if (!output.has_value()) continue;
      MF_ASSIGN_OR_RETURN(Tensor copy, output.Clone());
      results.fetches.push_back(std::move(copy));
    }
  }
  for (const VariableInfo& variable : session.layout().variables()) {
    if (!session.IsInitialized(variable.name)) continue;
    MF_ASSIGN_OR_RETURN(results.variables[variable.name], session.ReadVariable(variable.name));
  }
  MF_RETURN_IF_ERROR(session.CheckReplicas());
  return results;
}

// Returns the first difference, or "". If `tolerance` is null, all bits must be equal.
std::string DifferenceOf(const Results& want, const Results& got, const Tolerance* tolerance) {
  const auto differ = [&](const Tensor& a, const Tensor& b) -> std::string {
    if (tolerance != nullptr) return Difference(a, b, *tolerance);
    return Tensor::Identical(a, b) ? "" : "different bits";
  };
  if (want.fetches.size() != got.fetches.size()) return "different numbers of fetches";
  for (size_t i = 0; i < want.fetches.size(); ++i) {
    const std::string difference = differ(want.fetches[i], got.fetches[i]);
    if (!difference.empty()) return absl::StrCat("fetch ", i, ": ", difference);
  }
  if (want.variables.size() != got.variables.size()) return "different numbers of variables";
  for (const auto& [name, value] : want.variables) {
    const auto other = got.variables.find(name);
    if (other == got.variables.end()) return absl::StrCat("missing variable ", name);
    const std::string difference = differ(value, other->second);
    if (!difference.empty()) return absl::StrCat("variable ", name, ": ", difference);
  }
  return "";
}

// Runs `training` on two workers and returns their results, which must be equal bit for bit.
absl::StatusOr<Results> RunOnWorkers(const Training& training, bool one_domain,
                                     const SessionOptions& session = {}) {
  MF_ASSIGN_OR_RETURN(auto workers,
                      TestWorkers::Create([&](int) -> const Graph& { return training.graph; },
                                          {.workers = kWorkers,
                                           .replicas = kReplicas,
                                           .one_domain = one_domain,
                                           .session = session}));
  std::vector<Results> results(kWorkers);
  MF_RETURN_IF_ERROR(workers->OnAll([&](int w) -> absl::Status {
    MF_ASSIGN_OR_RETURN(results[w], Run(training, workers->session(w)));
    return absl::OkStatus();
  }));
  const std::string difference = DifferenceOf(results[0], results[1], nullptr);
  if (difference.empty()) return results[0];
  return absl::InternalError(absl::StrCat("workers differ: ", difference));
}

absl::StatusOr<Results> RunOnOneSession(const Training& training,
                                        const SessionOptions& options = {}) {
  MF_ASSIGN_OR_RETURN(
      auto session,
      CreateTestSession(training.graph, {.replicas = kWorkers * kReplicas, .session = options}));
  return Run(training, *session);
}

absl::StatusOr<std::unique_ptr<Training>> TrainingOf(absl::string_view model, int steps) {
  auto training = std::make_unique<Training>();
  const Scope root(&training->graph);
  MF_ASSIGN_OR_RETURN(const Classifier classifier, BuildClassifier(root, model));
  training->feeds = {classifier.images, classifier.labels};
  training->fetches = {classifier.loss};
  // The learning rate is too small to amplify rounding errors.
  training->targets = {
      Momentum({.learning_rate = 1e-3, .momentum = 0.9}).Minimize(root, classifier.loss)};
  Random random(9);
  for (int step = 0; step < steps; ++step) {
    const int64_t rows = step == steps - 1 ? 5 : 16;  // the last batch is shorter
    Shape shape = classifier.images.node->attr<Shape>("shape");
    shape.set_dim(0, rows);
    MF_ASSIGN_OR_RETURN(Tensor labels, Tensor::Allocate(DT_INT32, Shape({rows})));
    for (int32_t& label : labels.flat<int32_t>()) label = static_cast<int32_t>(random.Below(10));
    training->batches.push_back({RandomTensor(DT_FLOAT, shape, &random), labels});
  }
  return training;
}

class WorkersTrainTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, WorkersTrainTest, testing::Values("mlp", "cnn", "resnet"));

TEST_P(WorkersTrainTest, OneDomainMatchesOneSessionBitForBit) {
  const auto training = TrainingOf(GetParam(), 4);
  ASSERT_TRUE(training.ok()) << training.status();
  const auto want = RunOnOneSession(**training);
  const auto got = RunOnWorkers(**training, /*one_domain=*/true);
  ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
  EXPECT_EQ(DifferenceOf(*want, *got, nullptr), "");
}

TEST_P(WorkersTrainTest, TwoDomainsMatchLossesOfOneSessionAndAreReproducible) {
  const auto training = TrainingOf(GetParam(), 4);
  ASSERT_TRUE(training.ok()) << training.status();
  const auto want = RunOnOneSession(**training);
  const auto got = RunOnWorkers(**training, /*one_domain=*/false);
  const auto again = RunOnWorkers(**training, /*one_domain=*/false);
  ASSERT_TRUE(want.ok() && got.ok() && again.ok())
      << want.status() << got.status() << again.status();
  EXPECT_EQ(DifferenceOf(*got, *again, nullptr), "");
  const Tolerance tolerance{.relative = 1e-4, .absolute = 1e-6};
  for (size_t i = 0; i < want->fetches.size(); ++i) {
    EXPECT_EQ(Difference(want->fetches[i], got->fetches[i], tolerance), "") << "step " << i;
  }
}

// Compares one session of four replicas with two workers, in one domain and in two.
void ExpectProgramsMatchOneSession(uint64_t programs, bool communicates) {
  const Tolerance tolerance{.relative = 1e-8, .absolute = 1e-9};
  for (uint64_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    auto program = MakeRandomProgram(
        seed, {.num_ops = 4 + static_cast<int>(seed % 12), .communicates = communicates});
    ASSERT_TRUE(program.ok()) << program.status();
    Training training{.graph = std::move(program->graph),
                      .feeds = program->feeds,
                      .fetches = program->fetches,
                      .targets = program->targets,
                      .batches = {program->values, program->values}};
    Random random(seed);
    if (seed % 3 == 0) {
      int64_t left = program->batch;
      for (int r = 0; r + 1 < kWorkers * kReplicas; ++r) {
        training.rows.push_back(random.Below(left + 1));
        left -= training.rows.back();
      }
      training.rows.push_back(left);
    }
    SessionOptions session{.bucket_bytes = seed % 2 == 0 ? 64 : 1 << 20};
    session.compile.check_plan = true;
    const auto want = RunOnOneSession(training, session);
    ASSERT_TRUE(want.ok()) << want.status();
    const auto near = RunOnWorkers(training, /*one_domain=*/true, session);
    ASSERT_TRUE(near.ok()) << near.status();
    ASSERT_EQ(DifferenceOf(*want, *near, nullptr), "");
    const auto far = RunOnWorkers(training, /*one_domain=*/false, session);
    ASSERT_TRUE(far.ok()) << far.status();
    ASSERT_EQ(DifferenceOf(*want, *far, &tolerance), "");
  }
}

TEST(WorkersTest, RandomProgramsMatchOneSession) {
  ExpectProgramsMatchOneSession(NumRandomPrograms(200), /*communicates=*/false);
}

TEST(WorkersTest, RandomProgramsThatCommunicateMatchOneSession) {
  ExpectProgramsMatchOneSession(NumRandomPrograms(100), /*communicates=*/true);
}

// A one-layer model with a loss and a prediction for each row.
struct Layer {
  explicit Layer(float rate = 0.1f, bool swap_feeds = false,
                 const GradientReducer& reduce = nullptr) {
    const Scope root(&graph);
    x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 3});
    y = ops::Placeholder(root.WithName("y"), DT_FLOAT, {-1, 1});
    const Variable w = CreateVariable(root, "w", {3, 1}, initializers::Ones());
    prediction = ops::MatMul(root, x, w.value);
    const Output error = ops::Sub(root, prediction, y);
    loss = ops::Mean(root, ops::Square(root, error), {0, 1});
    train = GradientDescent({.learning_rate = rate}).Minimize(root, loss, {.reduce = reduce});
    feeds = swap_feeds ? std::vector<Output>{y, x} : std::vector<Output>{x, y};
    values = {Tensor::Of<float>({4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
              Tensor::Of<float>({4, 1}, {1, 2, 3, 4})};
    if (swap_feeds) std::swap(values[0], values[1]);
  }

  Graph graph;
  Output x, y, prediction, loss;
  Operation train;
  std::vector<Output> feeds;
  std::vector<Tensor> values;
};

absl::StatusOr<std::unique_ptr<TestWorkers>> WorkersOf(const Layer& layer,
                                                       const TestWorkersOptions& options = {}) {
  return TestWorkers::Create([&](int) -> const Graph& { return layer.graph; }, options);
}

TEST(WorkersTest, FetchesAreGatheredFromAllWorkersOrKeptLocal) {
  const Layer layer;
  for (const bool one_domain : {true, false}) {
    const auto workers = WorkersOf(layer, {.one_domain = one_domain});
    ASSERT_TRUE(workers.ok()) << workers.status();
    const std::vector<float> all = {6, 15, 24, 33};
    EXPECT_EQ((*workers)->OnAll([&](int w) -> absl::Status {
      Session& session = (*workers)->session(w);
      MF_ASSIGN_OR_RETURN(Step whole, session.Prepare(layer.feeds, {layer.prediction}));
      MF_ASSIGN_OR_RETURN(const StepOutputs gathered, whole.Run(layer.values));
      EXPECT_EQ(gathered[0].shape(), Shape({4, 1}));
      for (int i = 0; i < 4; ++i) EXPECT_EQ(gathered[0].flat<float>()[i], all[i]);
      const Output local[] = {layer.prediction};
      MF_ASSIGN_OR_RETURN(
          Step own, session.Prepare(layer.feeds, {layer.prediction}, {}, {.local_fetches = local}));
      MF_ASSIGN_OR_RETURN(const StepOutputs kept, own.Run(layer.values));
      EXPECT_EQ(kept[0].shape(), Shape({2, 1}));
      for (int i = 0; i < 2; ++i) EXPECT_EQ(kept[0].flat<float>()[i], all[2 * w + i]);
      return absl::OkStatus();
    }),
              absl::OkStatus());
  }
}

TEST(WorkersTest, WorkersAcceptOwnRowsOrGlobalBatch) {
  const Layer layer;
  const auto workers = WorkersOf(layer);
  ASSERT_TRUE(workers.ok()) << workers.status();
  const std::vector<int64_t> rows = {1, 0, 2, 1};
  float losses[3][kWorkers];
  EXPECT_EQ((*workers)->OnAll([&](int w) -> absl::Status {
    MF_ASSIGN_OR_RETURN(Step step, (*workers)->session(w).Prepare(layer.feeds, {layer.loss}));
    MF_ASSIGN_OR_RETURN(StepOutputs out, step.Run(layer.values));
    losses[0][w] = out[0].scalar<float>();
    // The workers have rows [0, 2) and [2, 4), then rows [0, 1) and [1, 4).
    const std::vector<std::vector<float>> xs = {{1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}};
    const std::vector<std::vector<float>> ys = {{1, 2}, {3, 4}};
    const std::vector<Tensor> even = {Tensor::Of<float>({2, 3}, xs[w]),
                                      Tensor::Of<float>({2, 1}, ys[w])};
    MF_ASSIGN_OR_RETURN(out, step.Run(even, {.local_feeds = true}));
    losses[1][w] = out[0].scalar<float>();
    const std::vector<Tensor> uneven =
        w == 0 ? std::vector<Tensor>{Tensor::Of<float>({1, 3}, {1, 2, 3}),
                                     Tensor::Of<float>({1, 1}, {1})}
               : std::vector<Tensor>{Tensor::Of<float>({3, 3}, {4, 5, 6, 7, 8, 9, 10, 11, 12}),
                                     Tensor::Of<float>({3, 1}, {2, 3, 4})};
    MF_ASSIGN_OR_RETURN(out, step.Run(uneven, {.replica_rows = rows, .local_feeds = true}));
    losses[2][w] = out[0].scalar<float>();
    return absl::OkStatus();
  }),
            absl::OkStatus());
  for (const auto& by_worker : losses) {
    EXPECT_FLOAT_EQ(by_worker[0], losses[0][0]);
    EXPECT_EQ(by_worker[1], by_worker[0]);
  }
}

TEST(WorkersTest, LocalFeedWithWrongRowCountFailsBothWorkersWithOneError) {
  const Layer layer;
  const auto workers = WorkersOf(layer);
  ASSERT_TRUE(workers.ok()) << workers.status();
  const auto statuses = (*workers)->OnEach([&](int w) -> absl::Status {
    MF_ASSIGN_OR_RETURN(Step step, (*workers)->session(w).Prepare(layer.feeds, {layer.loss}));
    const int64_t rows = w == 1 ? 3 : 2;
    const std::vector<Tensor> own = {Tensor::Of<float>({rows, 3}, std::vector<float>(3 * rows)),
                                     Tensor::Of<float>({rows, 1}, std::vector<float>(rows))};
    return step.Run(own, {.local_feeds = true}).status();
  });
  EXPECT_THAT(statuses[0], IsError(absl::StatusCode::kInvalidArgument, "expected 2 rows"));
  EXPECT_EQ(statuses[1], statuses[0]);
  ASSERT_TRUE(FailureOf(statuses[0]).has_value());
  EXPECT_EQ(FailureOf(statuses[0])->worker, 1);
}

// Each worker can have its own seed and initial values. The session uses those of worker 0.
TEST(WorkersTest, SeedAndInitialValuesComeFromFirstWorker) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 3});
  CreateVariable(root, "w", {3, 2}, initializers::GlorotUniform());
  const Output noise =
      ops::RandomUniform(root, ops::Const(root, Tensor::Vector<int32_t>({4})), DT_FLOAT);
  TestWorkersOptions options;
  options.change = [](int w, SessionOptions* session, SessionBackend*) {
    session->seed = 100 + static_cast<uint64_t>(w);
  };
  const auto workers = TestWorkers::Create([&](int) -> const Graph& { return graph; }, options);
  ASSERT_TRUE(workers.ok()) << workers.status();
  Tensor w[kWorkers], drawn[kWorkers];
  EXPECT_EQ((*workers)->OnAll([&](int worker) -> absl::Status {
    Session& session = (*workers)->session(worker);
    MF_ASSIGN_OR_RETURN(w[worker], session.ReadVariable("w"));
    MF_ASSIGN_OR_RETURN(
        const auto out,
        session.Run({{x, Tensor::Of<float>({4, 3}, std::vector<float>(12))}}, {noise}));
    drawn[worker] = out[0];
    return absl::OkStatus();
  }),
            absl::OkStatus());
  EXPECT_TRUE(Tensor::Identical(w[0], w[1]));
  EXPECT_TRUE(Tensor::Identical(drawn[0], drawn[1]));
  const auto alone = CreateTestSession(graph, {.replicas = 4, .session = {.seed = 100}});
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_TRUE(Tensor::Identical(*(*alone)->ReadVariable("w"), w[0]));
}

TEST(WorkersTest, FailedInitialisationOnOneWorkerFailsBoth) {
  Layer good, bad;
  bad.graph.SetAttr(bad.graph.FindNode("w"), "_initializer", std::string("missing"));
  const MonotonicTime start = MonotonicTime::Now();
  const auto workers =
      TestWorkers::Create([&](int w) -> const Graph& { return (w == 1 ? good : bad).graph; }, {});
  EXPECT_THAT(workers.status(), IsError(absl::StatusCode::kNotFound, "missing"));
  EXPECT_LT(MonotonicTime::Now() - start, absl::Seconds(30));
}

TEST(WorkersTest, StepCountAdvancesAndMustMatchAcrossWorkers) {
  const Layer layer;
  const auto workers = WorkersOf(layer);
  ASSERT_TRUE(workers.ok()) << workers.status();
  const auto step = [&](int w) -> absl::Status {
    MF_ASSIGN_OR_RETURN(Step step,
                        (*workers)->session(w).Prepare(layer.feeds, {layer.loss}, {layer.train}));
    return step.Run(layer.values).status();
  };
  EXPECT_EQ((*workers)->OnAll(step), absl::OkStatus());
  EXPECT_EQ((*workers)->session(0).step(), 1u);
  for (int w = 0; w < kWorkers; ++w) (*workers)->session(w).SetStep(40);
  EXPECT_EQ((*workers)->OnAll(step), absl::OkStatus());
  EXPECT_EQ((*workers)->session(1).step(), 41u);
  (*workers)->session(1).SetStep(42);
  const auto statuses = (*workers)->OnEach(step);
  EXPECT_THAT(statuses[0],
              IsError(absl::StatusCode::kInvalidArgument, "`step = 41`", "`step = 42`"));
  EXPECT_EQ(statuses[1], statuses[0]);
}

struct DifferenceCase {
  const char* name;
  std::string first, odd;  // the values that the error quotes
  std::function<void(int worker, SessionOptions*, SessionBackend*)> change = nullptr;
  float rate = 0.1f;
  bool swap_feeds = false;
  std::vector<int64_t> rows = {1, 1, 1, 1};
  GradientReducer first_hook = nullptr, odd_hook = nullptr;
};

class AgreementTest : public testing::TestWithParam<DifferenceCase> {};
INSTANTIATE_TEST_SUITE_P(
    , AgreementTest,
    testing::Values(
        DifferenceCase{.name = "LearningRate", .first = "0.1", .odd = "0.2", .rate = 0.2f},
        DifferenceCase{.name = "FeedOrder",
                       .first = "feed 0 = x float[4,3]",
                       .odd = "feed 0 = y float[4,1]",
                       .swap_feeds = true},
        DifferenceCase{.name = "RowShards",
                       .first = "rows of axis 0 by rank = 1, 1, 1, 1",
                       .odd = "rows of axis 0 by rank = 2, 0, 1, 1",
                       .rows = {2, 0, 1, 1}},
        DifferenceCase{.name = "Hook",
                       .first = "DstT=bfloat16",
                       .odd = "DstT=half",
                       .first_hook = hooks::Bf16Compress({.use_error_feedback = false}),
                       .odd_hook = hooks::Fp16Compress({.use_error_feedback = false})},
        DifferenceCase{.name = "Bucket",
                       .first = "option bucket_bytes = 0",
                       .odd = "option bucket_bytes = 64",
                       .change =
                           [](int w, SessionOptions* session, SessionBackend*) {
                             if (w == 1) session->bucket_bytes = 64;
                           }},
        DifferenceCase{.name = "Option",
                       .first = "option allow_tf32 = no",
                       .odd = "option allow_tf32 = yes",
                       .change =
                           [](int w, SessionOptions* session, SessionBackend*) {
                             if (w == 1) session->compile.kernels.allow_tf32 = true;
                           }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(AgreementTest, FirstDifferenceIsReportedBeforeFirstStep) {
  const DifferenceCase& c = GetParam();
  const Layer first(0.1f, false, c.first_hook), odd(c.rate, c.swap_feeds, c.odd_hook);
  const auto workers = TestWorkers::Create(
      [&](int w) -> const Graph& { return (w == 0 ? first : odd).graph; }, {.change = c.change});
  ASSERT_TRUE(workers.ok()) << workers.status();
  const MonotonicTime start = MonotonicTime::Now();
  const auto statuses = (*workers)->OnEach([&](int w) -> absl::Status {
    const Layer& layer = w == 0 ? first : odd;
    MF_ASSIGN_OR_RETURN(Step step,
                        (*workers)->session(w).Prepare(layer.feeds, {layer.loss}, {layer.train}));
    const std::vector<int64_t> even = {1, 1, 1, 1};
    return step.Run(layer.values, {.replica_rows = w == 0 ? even : c.rows}).status();
  });
  EXPECT_LT(MonotonicTime::Now() - start, absl::Seconds(30));
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kInvalidArgument) << statuses[0];
  EXPECT_EQ(statuses[1], statuses[0]);
  const std::string text(statuses[0].message());
  const size_t of_first = text.find("worker 0 (ranks 0 to 1) has `");
  const size_t of_odd = text.find("worker 1 (ranks 2 to 3) has `");
  ASSERT_NE(of_first, std::string::npos) << text;
  ASSERT_NE(of_odd, std::string::npos) << text;
  EXPECT_NE(text.substr(of_first, of_odd - of_first).find(c.first), std::string::npos) << text;
  EXPECT_NE(text.substr(of_odd).find(c.odd), std::string::npos) << text;
  for (int w = 0; w < kWorkers; ++w) {  // nothing was written
    EXPECT_EQ((*workers)->session(w).ReadVariable("w", 0)->flat<float>()[0], 1.0f);
  }
}

// Makes one worker fall silent after `when`. The other worker must fail by its deadline and name
// the silent worker as the cause. Once the silent worker is reachable again, both must reconnect.
// If `round` is odd, the step has already run once.
void FallSilent(const Layer& layer, TestWorkers& both, const TestWorkersOptions& options, int round,
                absl::Duration when) {
  const int silent = round / 2 % 2, other = 1 - silent;
  Step steps[kWorkers];
  for (int w = 0; w < kWorkers; ++w) {
    steps[w] = *both.session(w).Prepare(layer.feeds, {layer.loss}, {layer.train});
  }
  const auto run = [&](int w) { return steps[w].Run(layer.values).status(); };
  if (round % 2 != 0) {
    ASSERT_EQ(both.OnAll(run), absl::OkStatus());
  }
  const uint64_t incarnation = both.session(0).connection().incarnation();
  absl::Duration took;
  std::thread silencer([&] {
    absl::SleepFor(when);
    both.cluster().SetSilent(silent, true);
  });
  const auto statuses = both.OnEach([&](int w) -> absl::Status {
    while (true) {
      const MonotonicTime start = MonotonicTime::Now();
      const absl::Status status = run(w);
      if (w == other) took = MonotonicTime::Now() - start;
      if (!status.ok()) return status;
    }
  });
  silencer.join();
  const absl::Status& cause = statuses[other];
  EXPECT_EQ(cause.code(), absl::StatusCode::kDeadlineExceeded) << cause;
  const std::optional<Failure> failure = FailureOf(cause);
  ASSERT_TRUE(failure.has_value()) << cause;
  EXPECT_EQ(failure->worker, silent) << cause;
  EXPECT_EQ(both.session(other).connection().failure(), cause);
  EXPECT_EQ(both.session(other).connection().state(), Connection::State::kBroken);
  EXPECT_LT(took, options.session.prepare_timeout + 4 * options.collective_timeout);

  both.cluster().SetSilent(silent, false);
  float losses[kWorkers] = {};
  const auto connected = both.OnEach([&](int w) -> absl::Status {
    MF_RETURN_IF_ERROR(both.session(w).Reconnect());
    both.session(w).SetStep(0);
    MF_RETURN_IF_ERROR(both.session(w).AssignVariable("w", Tensor::Of<float>({3, 1}, {1, 1, 1})));
    MF_ASSIGN_OR_RETURN(const StepOutputs out, steps[w].Run(layer.values));
    losses[w] = out[0].scalar<float>();
    return absl::OkStatus();
  });
  for (const absl::Status& status : connected) ASSERT_EQ(status, absl::OkStatus());
  EXPECT_GT(both.session(0).connection().incarnation(), incarnation);
  EXPECT_EQ(both.session(1).connection().incarnation(), both.session(0).connection().incarnation());
  EXPECT_FLOAT_EQ(losses[0], 369.0f);
  EXPECT_EQ(losses[1], losses[0]);
}

// Runs many rounds, which spend most of their time waiting. Pairs of workers run them in parallel,
// so each timeout can be longer than the time for which a busy machine stalls a thread.
TEST(WorkersTest, SilentWorkerFailsPeerInTimeAndBothReconnect) {
  constexpr int kPairs = 20, kRounds = 2;
  const Layer layer;
  TestWorkersOptions options{.collective_timeout = absl::Seconds(1)};
  options.session.connect_timeout = options.session.prepare_timeout = absl::Seconds(3);
  std::vector<std::unique_ptr<TestWorkers>> pairs;
  for (int p = 0; p < kPairs; ++p) {
    auto workers = WorkersOf(layer, options);
    ASSERT_TRUE(workers.ok()) << workers.status();
    pairs.push_back(std::move(*workers));
  }
  std::vector<std::thread> threads;
  for (int p = 0; p < kPairs; ++p) {
    threads.emplace_back([&, p] {
      Random random(p + 1);
      for (int round = 0; round < kRounds; ++round) {
        SCOPED_TRACE(absl::StrCat("pair ", p, ", round ", round));
        FallSilent(layer, *pairs[p], options, p + round, absl::Microseconds(random.Below(2000)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(WorkersTest, OnReadVariablesAreSummedOverAllRanks) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1});
  const Variable seen = CreateVariable(root, "seen", {}, initializers::Zeros(), DT_FLOAT,
                                       {.synchronization = VariableSynchronization::kOnRead});
  const Operation count = ops::AssignAddVariableOp(root, seen.handle, ops::Sum(root, x, {0}));
  const auto workers = TestWorkers::Create([&](int) -> const Graph& { return graph; }, {});
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_EQ((*workers)->OnAll([&](int w) -> absl::Status {
    Session& session = (*workers)->session(w);
    MF_ASSIGN_OR_RETURN(Step step, session.Prepare({x}, {}, {count}));
    for (int i = 0; i < 3; ++i) {
      MF_RETURN_IF_ERROR(step.Run({Tensor::Vector<float>({1, 2, 3, 4, 5})}).status());
    }
    MF_ASSIGN_OR_RETURN(const Tensor sum, session.ReadVariable("seen"));
    EXPECT_EQ(sum.scalar<float>(), 45);
    MF_ASSIGN_OR_RETURN(const Tensor part, session.ReadVariable("seen", 0));
    EXPECT_LT(part.scalar<float>(), 45);
    return absl::OkStatus();
  }),
            absl::OkStatus());
}

}  // namespace
}  // namespace mirrorflow
