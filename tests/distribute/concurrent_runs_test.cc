// SPDX-License-Identifier: Apache-2.0
//
// Stress tests: many threads on one session, feeds of many shapes, and eviction of compiled steps.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "framework/compiler/pass.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/trace.h"
#include "framework/session/step_cache.h"
#include "framework/session/step_plans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/process_memory.h"
#include "tests/support/session_parts.h"
#include "tests/support/test_session.h"
#include "tests/support/test_workers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr int kThreads = 8;

// Whether the program runs under a sanitizer, whose shadow memory adds to the peak memory.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kHasSanitizer = true;
#elif defined(__has_feature)
constexpr bool kHasSanitizer = __has_feature(address_sanitizer);
#else
constexpr bool kHasSanitizer = false;
#endif

// Returns how long the threads run: MIRRORFLOW_CONCURRENT_SECONDS, or two seconds.
absl::Duration Duration() {
  int seconds = 2;
  if (const char* text = std::getenv("MIRRORFLOW_CONCURRENT_SECONDS")) {
    EXPECT_TRUE(absl::SimpleAtoi(text, &seconds)) << text;
  }
  return absl::Seconds(seconds);
}

void OnThreads(int count, const std::function<void(int thread)>& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&, t] { work(t); });
  for (std::thread& thread : threads) thread.join();
}

// A model of 340 parameters: x·w1 + b1, relu, ·w2 + b2.
class SmallModel {
 public:
  static constexpr int64_t kIn = 16, kHidden = 16, kOut = 4;

  SmallModel() {
    const Scope root(&graph);
    x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, kIn});
    const auto dense = [&](const std::string& name, const Output& in, int64_t from, int64_t to) {
      const Variable w =
          CreateVariable(root, name + "/w", {from, to}, initializers::GlorotUniform());
      const Variable b = CreateVariable(root, name + "/b", {to}, initializers::Constant(0.5));
      return ops::AddV2(root, ops::MatMul(root, in, w.value), b.value);
    };
    y = dense("two", ops::Relu(root, dense("one", x, kIn, kHidden)), kHidden, kOut);
  }

  // Returns rows [first_row, first_row + rows). Element j of row r is (r * kIn + j) % 1009 / 64.
  static Tensor Batch(int64_t first_row, int64_t rows) {
    Tensor batch = *Tensor::Allocate(DT_FLOAT, {rows, kIn});
    for (int64_t i = 0; i < rows * kIn; ++i) {
      batch.flat<float>()[i] = static_cast<float>((first_row * kIn + i) % 1009) / 64;
    }
    return batch;
  }

  Graph graph;
  Output x, y;
};

TEST(ConcurrentRunsTest, ThreadsWithRandomShapesGetCorrectResults) {
  const SmallModel model;
  constexpr int kMaxSteps = 16;
  auto session = CreateTestSession(
      model.graph, {.session = {.max_cached_steps = kMaxSteps, .max_concurrent_runs = kThreads}});
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = (*session)->Prepare({model.x}, {model.y}).value();
  constexpr int64_t kRows = 1000, kMaxBatch = 60;
  const auto all = step.Run({SmallModel::Batch(0, kRows)});
  ASSERT_TRUE(all.ok()) << all.status();
  const Tensor want = (*all)[0];
  const MonotonicTime end = MonotonicTime::Now() + Duration();
  std::atomic<int64_t> runs{0};
  OnThreads(kThreads, [&](int thread) {
    std::mt19937 random(thread);
    while (MonotonicTime::Now() < end) {
      const int64_t rows = 1 + random() % kMaxBatch, first = random() % (kRows - rows);
      const auto out = step.Run({SmallModel::Batch(first, rows)});
      ASSERT_TRUE(out.ok()) << out.status();
      ASSERT_EQ((*out)[0].shape(), Shape({rows, SmallModel::kOut}));
      for (int64_t i = 0; i < rows * SmallModel::kOut; ++i) {
        // Products of different sizes can round differently.
        ASSERT_NEAR((*out)[0].flat<float>()[i], want.flat<float>()[first * SmallModel::kOut + i],
                    1e-3);
      }
      ASSERT_LE((*session)->cache().size(), kMaxSteps);
      ++runs;
    }
  });
  EXPECT_EQ((*session)->reading_step(), static_cast<uint64_t>(runs) + 1);
}

// Two large variables that a step changes together, and a step that reads both.
struct TwoVariables {
  static constexpr int64_t kSize = 20000;

  TwoVariables() {
    const Scope root(&graph);
    a = CreateVariable(root, "a", {kSize}, initializers::Zeros());
    b = CreateVariable(root, "b", {kSize}, initializers::Zeros());
    const Output one = ops::Const(root, Tensor::Vector<float>(std::vector<float>(kSize, 1)));
    add = {ops::AssignAddVariableOp(root, a.handle, one),
           ops::AssignAddVariableOp(root, b.handle, one)};
    // The spread is non-zero if the elements belong to several versions.
    const auto spread = [&](const Output& v) {
      return ops::Sub(root, ops::Max(root, v, {0}), ops::Min(root, v, {0}));
    };
    difference = ops::AddV2(
        root, ops::AddV2(root, spread(a.value), spread(b.value)),
        ops::Abs(root, ops::Sub(root, ops::Max(root, a.value, {0}), ops::Max(root, b.value, {0}))));
  }

  Graph graph;
  Variable a, b;
  std::vector<Operation> add;
  Output difference;
};

// Runs `write` on one thread and `read` on the others. Returns the number of torn reads: those that
// saw several versions.
int CountMixedReads(const std::function<absl::Status()>& write,
                    const std::function<absl::StatusOr<StepOutputs>(int thread)>& read,
                    int num_readers, absl::Duration duration) {
  const MonotonicTime end = MonotonicTime::Now() + duration;
  std::atomic<int> mixed{0};
  OnThreads(num_readers + 1, [&](int thread) {
    while (MonotonicTime::Now() < end) {
      if (thread == num_readers) {
        const absl::Status written = write();
        ASSERT_TRUE(written.ok()) << written;
        continue;
      }
      const auto out = read(thread);
      ASSERT_TRUE(out.ok()) << out.status();
      if ((*out)[0].scalar<float>() != 0) ++mixed;
    }
  });
  return mixed;
}

TEST(ConcurrentRunsTest, ReadersSeeConsistentVariables) {
  const TwoVariables model;
  auto session = CreateTestSession(model.graph, {.session = {.max_concurrent_runs = kThreads}});
  ASSERT_TRUE(session.ok()) << session.status();
  Step add = (*session)->Prepare({}, {}, model.add).value();
  Step read = (*session)->Prepare({}, {model.difference}).value();
  const auto run_read = [&](int) { return read.Run({}); };
  EXPECT_EQ(
      CountMixedReads([&] { return add.Run({}).status(); }, run_read, kThreads - 1, Duration() / 2),
      0);
  EXPECT_GT((*session)->step(), 0u);
  // The host assigns all variables in one call.
  float version = 0;
  const auto assign = [&] {
    ++version;
    const Tensor value = Tensor::Vector<float>(std::vector<float>(TwoVariables::kSize, version));
    return (*session)->AssignVariables({{"a", value}, {"b", value}});
  };
  EXPECT_EQ(CountMixedReads(assign, run_read, kThreads - 1, Duration() / 2), 0);
  EXPECT_GT(version, 0);
}

// Planted bug: a writer does not wait for readers. The data race is intentional, so TSan, which
// would report it and fail the test, skips this case.
TEST(ConcurrentRunsTest, TornReadIsDetected) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the planted data race fails under TSan by design";
#endif
  const TwoVariables model;
  SessionParts parts(model.graph);
  const Tensor zeros = *Tensor::Allocate(DT_FLOAT, {TwoVariables::kSize});
  for (const int v : {0, 1}) ASSERT_EQ(parts.variables->Set(v, zeros), absl::OkStatus());
  const auto add = parts.Prepare({}, {}, model.add), read = parts.Prepare({}, {model.difference});
  const auto reader = parts.NewRunner();
  int mixed = 0;
  for (int tries = 0; mixed == 0 && tries < 60; ++tries) {
    mixed = CountMixedReads([&] { return SessionParts::Run(*parts.runner, *add, {}).status(); },
                            [&](int) { return SessionParts::Run(*reader, *read, {}); }, 1,
                            absl::Milliseconds(500));
  }
  EXPECT_GT(mixed, 0);
}

// Adds 1 to every variable of a step.
class AddOne final : public Pass {
 public:
  absl::string_view name() const override { return "add_one"; }
  absl::StatusOr<bool> Run(Compilation& c) override {
    const Scope scope = c.scope();
    for (Node* node : c.graph.Nodes()) {
      if (node->op().role != OpRole::kVariable) continue;
      c.targets.push_back(
          ops::AssignAddVariableOp(scope, node->output(0), ops::ScalarConst(scope, DT_FLOAT, 1))
              .node);
    }
    return true;
  }
};

// The graph does not show that the step writes, because a user pass adds the write.
TEST(ConcurrentRunsTest, WritesAddedByUserPassAreExclusive) {
  Graph graph;
  const Scope root(&graph);
  const Variable v = CreateVariable(root, "v", {}, initializers::Zeros());
  auto session = CreateTestSession(
      graph, {.session = {.max_concurrent_runs = kThreads},
              .set_backend = [](const TestSessionOptions&, SessionBackend* backend) {
                backend->devices.push_back(CreateCpuDevice(0));
                backend->kernels = &TestKernels();
                backend->passes = {[] { return std::make_unique<AddOne>(); }};
                return absl::OkStatus();
              }});
  ASSERT_TRUE(session.ok()) << session.status();
  constexpr int kRuns = 50;
  std::vector<float> seen(kThreads * kRuns);
  OnThreads(kThreads, [&](int thread) {
    Step step = (*session)->Prepare({}, {v.value}).value();
    for (int i = 0; i < kRuns; ++i) {
      const auto out = step.Run({});
      ASSERT_TRUE(out.ok()) << out.status();
      seen[thread * kRuns + i] = (*out)[0].scalar<float>();
    }
  });
  std::sort(seen.begin(), seen.end());
  for (int i = 0; i < kThreads * kRuns; ++i) ASSERT_EQ(seen[i], static_cast<float>(i));
  EXPECT_EQ((*session)->step(), static_cast<uint64_t>(kThreads * kRuns));
}

TEST(ConcurrentRunsTest, MultiReplicaRunsAreQueued) {
  const SmallModel model;
  auto session = CreateTestSession(model.graph, {.replicas = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = (*session)->Prepare({model.x}, {model.y}).value();
  OnThreads(4, [&](int thread) {
    for (int64_t i = 0; i < 50; ++i) {
      const auto out = step.Run({SmallModel::Batch(thread, 2 + i % 3)});
      ASSERT_TRUE(out.ok()) << out.status();
      ASSERT_EQ((*out)[0].shape(), Shape({2 + i % 3, SmallModel::kOut}));
    }
  });
}

// Prepares steps, calls Session::Run, reads variables and traces, concurrently with other runs.
TEST(ConcurrentRunsTest, OtherCallsAreThreadSafe) {
  const SmallModel model;
  auto session = CreateTestSession(model.graph, {.session = {.max_concurrent_runs = kThreads}});
  ASSERT_TRUE(session.ok()) << session.status();
  Session& s = **session;
  TraceWriter trace;
  OnThreads(5, [&](int thread) {
    for (int64_t i = 0; i < 30; ++i) {
      switch (thread) {
        case 0:
          EXPECT_TRUE(s.Run({{model.x, SmallModel::Batch(0, 1 + i)}}, {model.y}).ok());
          break;
        case 1:
          EXPECT_TRUE(s.Prepare({model.x}, {model.y})->Run({SmallModel::Batch(0, 3)}).ok());
          break;
        case 2:
          EXPECT_TRUE(s.ReadVariable("one/w").ok());
          EXPECT_TRUE(s.IsInitialized("one/b"));
          break;
        case 3:
          ASSERT_EQ(s.TraceTo(i % 2 == 0 ? &trace : nullptr), absl::OkStatus());
          break;
        default:
          EXPECT_TRUE(
              CompileStep(*s.Prepare({model.x}, {model.y}), {Shape({1 + i % 4, SmallModel::kIn})})
                  .ok());
      }
    }
  });
  ASSERT_EQ(s.TraceTo(nullptr), absl::OkStatus());
}

// Copies of several variables come from the same step.
TEST(ConcurrentRunsTest, CopyVariablesReturnsConsistentSnapshot) {
  const TwoVariables model;
  auto session = CreateTestSession(model.graph, {.session = {.max_concurrent_runs = kThreads}});
  ASSERT_TRUE(session.ok()) << session.status();
  Step add = (*session)->Prepare({}, {}, model.add).value();
  std::atomic<bool> done{false};
  OnThreads(2, [&](int thread) {
    if (thread == 0) {
      while (!done) ASSERT_TRUE(add.Run({}).ok());
      return;
    }
    std::map<std::string, Tensor> copies = {{"gone", Tensor::Scalar<float>(1)}};
    for (int i = 0; i < 200; ++i) {
      const auto step = (*session)->CopyVariables(&copies);
      ASSERT_TRUE(step.ok()) << step.status();
      ASSERT_EQ(copies.size(), 2u);
      for (const auto& [name, value] : copies) {
        for (const float v : value.flat<float>()) ASSERT_EQ(v, static_cast<float>(*step)) << name;
      }
    }
    done = true;
  });
}

TEST(ConcurrentRunsTest, PerReplicaValuesComeFromLastRunOnAnyRunner) {
  const SmallModel model;
  auto session = CreateTestSession(model.graph, {.session = {.max_concurrent_runs = kThreads}});
  ASSERT_TRUE(session.ok()) << session.status();
  OnThreads(kThreads, [&](int thread) {
    Step step = (*session)->Prepare({model.x}, {model.y}).value();
    for (int64_t i = 0; i < 50; ++i) {
      const int64_t rows = 1 + thread;
      ASSERT_TRUE(step.Run({SmallModel::Batch(i, rows)}).ok());
      const auto values = step.PerReplica(0);
      EXPECT_GE(step.host_time(), absl::ZeroDuration());
      if (values.ok()) {
        EXPECT_EQ((*values)[0].shape(), Shape({rows, SmallModel::kOut}));
      } else {
        EXPECT_THAT(values.status(),
                    IsError(absl::StatusCode::kFailedPrecondition, "step:", "another step"));
      }
    }
  });
}

TEST(ConcurrentRunsTest, SecondThreadIsRejectedWithSeveralWorkers) {
  const TwoVariables model;
  auto workers = TestWorkers::Create([&](int) -> const Graph& { return model.graph; },
                                     {.workers = 2, .replicas = 1});
  ASSERT_TRUE(workers.ok()) << workers.status();
  Step steps[2];
  for (int w : {0, 1}) steps[w] = (*workers)->session(w).Prepare({}, {}, model.add).value();
  // The first step of worker 0 waits for worker 1. If the main thread is in a call at that moment,
  // the step is rejected and tried again.
  std::thread first([&] {
    absl::Status status;
    do {
      status = steps[0].Run({}).status();
    } while (absl::IsFailedPrecondition(status));
    EXPECT_EQ(status, absl::OkStatus());
  });
  absl::Status refused;
  while (refused.ok()) refused = (*workers)->session(0).ReadVariable("a").status();
  EXPECT_THAT(refused, IsError(absl::StatusCode::kFailedPrecondition, "another thread"));
  EXPECT_THAT(steps[0].Run({}).status(),
              IsError(absl::StatusCode::kFailedPrecondition, "session", "another thread"));
  EXPECT_EQ(steps[1].Run({}).status(), absl::OkStatus());
  first.join();
}

// Runs each worker's step on one batch per entry of `rows`. Returns the first error.
absl::Status RunOnWorkers(TestWorkers& workers, std::vector<Step>& steps,
                          const std::vector<int64_t>& rows) {
  return workers.OnAll([&](int w) -> absl::Status {
    for (const int64_t n : rows) {
      MF_RETURN_IF_ERROR(steps[w].Run({SmallModel::Batch(0, n)}).status());
    }
    return absl::OkStatus();
  });
}

TEST(ConcurrentRunsTest, WorkersEvictingDifferentStepsAreDetected) {
  const SmallModel model;
  const auto start = [&](int max_steps_of_worker_1) {
    auto workers = TestWorkers::Create(
        [&](int) -> const Graph& { return model.graph; },
        {.workers = 2, .replicas = 1, .change = [=](int w, SessionOptions* options, auto*) {
           options->max_cached_steps = w == 1 ? max_steps_of_worker_1 : 2;
         }});
    EXPECT_TRUE(workers.ok()) << workers.status();
    return *std::move(workers);
  };
  const auto prepare = [&](TestWorkers& workers) {
    std::vector<Step> steps;
    for (int w : {0, 1}) {
      steps.push_back(workers.session(w).Prepare({model.x}, {model.y}).value());
    }
    return steps;
  };
  {
    auto workers = start(2);
    auto steps = prepare(*workers);
    EXPECT_EQ(RunOnWorkers(*workers, steps, {2, 4, 2, 6, 4, 8, 2}), absl::OkStatus());
    EXPECT_EQ(workers->session(1).cache().size(), 2u);
  }
  {
    auto workers = start(3);
    auto steps = prepare(*workers);
    const absl::Status status = RunOnWorkers(*workers, steps, {2});
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "max_cached_steps"));
  }
  {  // Only worker 1 requests the plans of a step. The request leaves the worker's cache unchanged.
    auto workers = start(2);
    auto steps = prepare(*workers);
    EXPECT_EQ(RunOnWorkers(*workers, steps, {2, 4}), absl::OkStatus());
    EXPECT_TRUE(CompileStep(steps[1], {Shape({2, SmallModel::kIn})}).ok());
    EXPECT_TRUE(CompileStep(steps[1], {Shape({8, SmallModel::kIn})}).ok());
    EXPECT_EQ(RunOnWorkers(*workers, steps, {6, 2, 4}), absl::OkStatus());
  }
  {  // After a step that only one worker compiled, all workers clear their caches.
    auto workers = start(2);
    auto steps = prepare(*workers);
    EXPECT_EQ(RunOnWorkers(*workers, steps, {2, 4}), absl::OkStatus());
    const std::vector<absl::Status> failed = workers->OnEach([&](int w) {
      return steps[w]
          .Run({w == 0 ? SmallModel::Batch(0, 6) : Tensor::Vector<int32_t>({1})})
          .status();
    });
    EXPECT_THAT(failed[0], IsError(absl::StatusCode::kInvalidArgument, "feed x", "int32"));
    EXPECT_EQ(RunOnWorkers(*workers, steps, {2, 4, 6, 2, 8}), absl::OkStatus());
  }
  {  // Planted bug: worker 1 uses a step that worker 0 does not, and evicts it later.
    auto workers = start(2);
    auto steps = prepare(*workers);
    EXPECT_EQ(RunOnWorkers(*workers, steps, {2, 4}), absl::OkStatus());
    std::vector<std::atomic<VariableStore::State>> states(
        workers->session(1).layout().variables().size());
    for (auto& state : states) state = VariableStore::State::kSet;
    EXPECT_TRUE(const_cast<StepCache&>(workers->session(1).cache())
                    .Get({*steps[1].prepared(), {Shape({2, SmallModel::kIn})}, {}, states})
                    .ok());
    const absl::Status status = RunOnWorkers(*workers, steps, {6});
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "evicted"));
  }
}

TEST(ConcurrentRunsTest, LeakedEvictedStepIsDetected) {
  const SmallModel model;
  SessionParts parts(model.graph, {.max_steps = 1});
  for (size_t v = 0; v < parts.variables->states().size(); ++v) {
    const VariableInfo& info = parts.variables->info(static_cast<int>(v));
    ASSERT_EQ(parts.variables->Set(static_cast<int>(v), *Tensor::Allocate(info.dtype, info.shape)),
              absl::OkStatus());
  }
  const auto step = parts.Prepare({model.x}, {model.y});
  const auto run_and_drop = [&](int64_t rows, bool plant) {
    const Tensor batch = SmallModel::Batch(0, rows);
    EXPECT_TRUE(SessionParts::Run(*parts.runner, *step, {batch}).ok());
    const std::shared_ptr<CompiledStep> compiled =
        *parts.cache->Get({*step, {batch.shape()}, {}, parts.variables->states()});
    const std::weak_ptr<CompiledStep> seen = compiled;
    EXPECT_TRUE(
        parts.cache
            ->Get({*step, {Shape({99 + rows, SmallModel::kIn})}, {}, parts.variables->states()})
            .ok());
    EXPECT_TRUE(compiled->evicted);
    if (plant) compiled->evicted = false;  // hides the eviction from the runner
    return seen;
  };
  const auto dropped = run_and_drop(1, false);
  const auto stays = run_and_drop(2, true);
  EXPECT_TRUE(SessionParts::Run(*parts.runner, *step, {SmallModel::Batch(0, 3)}).ok());
  EXPECT_TRUE(dropped.expired());
  EXPECT_FALSE(stays.expired());
}

TEST(ConcurrentRunsTest, SixThousandBatchSizesStayBelow200Megabytes) {
  const SmallModel model;
  auto session = CreateTestSession(model.graph, {});
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = (*session)->Prepare({model.x}, {model.y}).value();
  // Sanitizers allocate memory of their own, so they cannot check the limit. For evictions, fewer
  // sizes suffice.
  const int64_t num_sizes = kHasSanitizer ? 600 : 6000;
  for (int64_t rows = 1; rows <= num_sizes; ++rows) {
    const auto out = step.Run({SmallModel::Batch(0, rows)});
    ASSERT_TRUE(out.ok()) << out.status();
  }
  EXPECT_EQ((*session)->cache().size(), static_cast<size_t>(SessionOptions().max_cached_steps));
  if (!kHasSanitizer) {
    EXPECT_LT(MemoryFigure("VmHWM"), 200 << 20);
  }
}

// A run whose memory does not fit beside other runs waits for them. A run that can never fit fails.
TEST(ConcurrentRunsTest, MemoryOfConcurrentRunsIsLimited) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1});
  // Each run needs about 4 bytes of intermediate values per row, and a scalar.
  const Output y = ops::Sum(
      root, ops::Exp(root, ops::Cumsum(root, x, ops::ScalarConst(root, DT_INT32, 0))), {0});
  constexpr int64_t kRows = 200000;
  auto session = CreateTestSession(
      graph, {.session = {.max_bytes = 3 * kRows * 4, .max_concurrent_runs = kThreads}});
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = (*session)->Prepare({x}, {y}).value();
  OnThreads(kThreads, [&](int thread) {
    const Tensor zeros = *Tensor::Allocate(DT_FLOAT, {kRows + thread});
    for (int i = 0; i < 20; ++i) {
      const auto out = step.Run({zeros});
      ASSERT_TRUE(out.ok()) << out.status();
      EXPECT_EQ((*out)[0].scalar<float>(), static_cast<float>(kRows + thread));
    }
  });
  const absl::Status large = step.Run({*Tensor::Allocate(DT_FLOAT, {10 * kRows})}).status();
  EXPECT_THAT(large, IsError(absl::StatusCode::kResourceExhausted, "this step", "2400000 bytes"));
}

}  // namespace
}  // namespace mirrorflow
