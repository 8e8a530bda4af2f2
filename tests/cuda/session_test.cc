// SPDX-License-Identifier: Apache-2.0
//
// Tests sessions on GPUs, with fakes of CUDA and NCCL: a step computes the right results, streams
// and events order its work, all ranks pass the same collectives to NCCL, and failures are
// reported.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "distribute/collective/device_copy/device_copy_communicator.h"
#include "distribute/collective/nccl/nccl_communicator.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/session/session_backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/cuda_device.h"
#include "ops/all/ops.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/nccl/fake_nccl.h"
#include "tests/support/compare_with_reference.h"
#include "tests/support/gpu_fakes.h"
#include "tests/support/is_error.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr int kGpus = 4;

void Reset(FakeCudaOptions cuda = {}, const FakeNcclOptions& nccl = {}) {
  cuda.num_gpus = kGpus;
  ResetFakeCuda(cuda);
  ResetFakeNccl(nccl);
}

// Three layers with one variable each, so that training has several collectives.
struct Layers {
  Graph graph;
  Output x, loss;
  Operation train;

  Layers() {
    const Scope root(&graph);
    x = ops::Placeholder(root, DT_FLOAT, {-1, 6});
    Output y = x;
    for (const char* name : {"a", "b", "c"}) {
      const Output w = CreateVariable(root, name, {6, 6}, initializers::GlorotUniform()).value;
      y = ops::Tanh(root, ops::MatMul(root, y, w));
    }
    loss = ops::Mean(root, ops::Square(root, y), {0, 1});
    train = SGD({.learning_rate = 0.1}).Minimize(root, loss);
  }
};

absl::StatusOr<std::unique_ptr<Session>> OnFakes(const Layers& layers, TestSessionOptions options) {
  if (!options.set_backend) options.set_backend = SetFakeGpus;
  options.session.bucket_bytes = 64;  // one collective per variable
  return CreateTestSession(layers.graph, options);
}

Step PrepareStep(const Layers& layers, Session& session) {
  return session.Prepare({layers.x}, {layers.loss}, {layers.train}).value();
}

std::vector<Tensor> BatchOf(int64_t rows) {
  Random random(3);
  return {RandomTensor(DT_FLOAT, Shape({rows, 6}), &random)};
}

absl::StatusOr<float> RunStep(const Layers& layers, Session& session) {
  Step step = PrepareStep(layers, session);
  MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run(BatchOf(8)));
  return out[0].scalar<float>();
}

// Checks 30 random programs, starting from seed `first`, on the GPUs that `set_backend` creates.
template <typename SetBackend>
void CheckRandomPrograms(uint64_t first, SetBackend set_backend) {
  for (uint64_t seed = first; seed < first + 30; ++seed) {
    Reset({.seed = seed});
    const auto program = MakeRandomProgram(seed, {.num_ops = 4 + static_cast<int>(seed % 12)});
    ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << program.status();
    ProgramSetting setting;
    setting.session.replicas = static_cast<int>(1 + seed % kGpus);
    setting.session.set_backend = set_backend;
    setting.session.session.bucket_bytes = seed % 2 == 0 ? 64 : 1 << 20;
    const auto difference = CompareWithReference(*program, setting);
    ASSERT_TRUE(difference.ok()) << "seed " << seed << ": " << difference.status();
    EXPECT_EQ(*difference, "") << "seed " << seed;
    EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus()) << "seed " << seed;
    EXPECT_EQ(NcclMisuse(), absl::OkStatus()) << "seed " << seed;
  }
}

TEST(GpuSessionTest, RandomProgramsMatchReferenceInterpreter) {
  CheckRandomPrograms(1, SetFakeGpus);
}

TEST(GpuSessionTest, RandomProgramsOnLogicalGpusMatchReferenceInterpreter) {
  CheckRandomPrograms(61, SetLogicalFakeGpus);
}

TEST(GpuSessionTest, StepEnqueuesItsCollectivesInOrder) {
  Reset();
  const Layers layers;
  const auto session = OnFakes(layers, {.replicas = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto loss = RunStep(layers, **session);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_GE(NumNcclCollectives(), 2 * 4);  // three gradients and the loss on each rank
  EXPECT_EQ(NumUrgentNcclCollectives(), NumNcclCollectives());
  EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
}

// Without any one of these waits, two operations would be unordered. Four waits order the
// collectives after their inputs. Four order the readers of the results after the collectives,
// unless the host waits for the collectives, as it does in the first step. These imply the other
// waits between lanes: two at the beginning and two at the end.
TEST(GpuSessionTest, IgnoredWaitIsDetected) {
  const Layers layers;
  // The first step runs one instruction at a time; the third replays graphs.
  for (const int steps_before : {0, 2}) {
    std::vector<int> found;
    int num_waits = 1;
    for (int wait = 0; wait < num_waits; ++wait) {
      Reset();
      // With fewer kernels, other waits would imply one of these waits.
      TestSessionOptions options{.replicas = 2};
      options.session.compile.disabled_passes = {"fuse_elementwise"};
      const auto session = OnFakes(layers, options);
      ASSERT_TRUE(session.ok()) << session.status();
      Step step = PrepareStep(layers, **session);
      for (int i = 0; i < steps_before; ++i) ASSERT_TRUE(step.Run(BatchOf(8)).ok());
      Reset({.ignored_wait = wait});
      const auto loss = step.Run(BatchOf(8));
      ASSERT_TRUE(loss.ok()) << loss.status();
      EXPECT_EQ(NumGraphLaunches() > 0, steps_before > 0);
      num_waits = NumRecordedWaits();
      if (!CheckRecordedOrder().ok()) found.push_back(wait);
    }
    EXPECT_EQ(num_waits, 12);
    const std::vector<int> with_host = {2, 3, 5, 7}, without = {2, 3, 4, 5, 6, 7, 8, 9};
    EXPECT_EQ(found, steps_before == 0 ? with_host : without) << steps_before;
  }
}

// A communicator that starts its second collective before its first.
class Swapping final : public Communicator {
 public:
  explicit Swapping(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  absl::Status Start(const Collective& c, Lane* lane) override {
    if (started_++ == 0) {
      first_ = c;
      return absl::OkStatus();
    }
    MF_RETURN_IF_ERROR(inner_->Start(c, lane));
    return started_ == 2 ? inner_->Start(first_, lane) : absl::OkStatus();
  }
  absl::Status Finish(const Collective& c, Lane* lane) override { return inner_->Finish(c, lane); }
  absl::Status status() const override { return inner_->status(); }
  void Abort(absl::Status why) override { inner_->Abort(why); }

 private:
  const std::unique_ptr<Communicator> inner_;
  Collective first_;
  int started_ = 0;
};

TEST(GpuSessionTest, RanksWithDifferentBucketOrderAreReported) {
  Reset();
  const Layers layers;
  TestSessionOptions options{.replicas = 2};
  options.wrap_communicator = [](std::unique_ptr<Communicator> c) -> std::unique_ptr<Communicator> {
    if (c->rank() != 1) return c;
    return std::make_unique<Swapping>(std::move(c));
  };
  const auto session = OnFakes(layers, options);
  const auto loss = session.ok() ? RunStep(layers, **session) : session.status();
  EXPECT_THAT(loss.status(), IsError(absl::StatusCode::kInvalidArgument, "NCCL", "differ",
                                     "collective 1 ", "rank 0 has ", "rank 1 has "));
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());  // NCCL never received the mismatched collectives

  options.set_backend = SetLogicalFakeGpus;
  const auto logical = OnFakes(layers, options);
  const auto refused = logical.ok() ? RunStep(layers, **logical) : logical.status();
  EXPECT_THAT(refused.status(), IsError(absl::StatusCode::kInvalidArgument, "rank 1 runs "));
}

// The losses on logical GPUs equal those on CPUs, up to the rounding of the kernels.
TEST(GpuSessionTest, LogicalGpusMatchLossesOfCpus) {
  const Layers layers;
  for (const int replicas : {1, 2, 3, 4}) {
    Reset();
    const auto gpus = OnFakes(layers, {.replicas = replicas, .set_backend = SetLogicalFakeGpus});
    TestSessionOptions on_cpus{.replicas = replicas};
    on_cpus.session.bucket_bytes = 64;
    const auto cpus = CreateTestSession(layers.graph, on_cpus);
    ASSERT_TRUE(gpus.ok() && cpus.ok()) << gpus.status() << cpus.status();
    for (int i = 0; i < 3; ++i) {
      const auto got = RunStep(layers, **gpus), want = RunStep(layers, **cpus);
      ASSERT_TRUE(got.ok() && want.ok()) << got.status() << want.status();
      EXPECT_NEAR(*got, *want, 1e-6 * std::abs(*want)) << "step " << i << " on " << replicas;
    }
    EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus()) << replicas;
  }
}

// The next step's feeds are copied while the current step computes. Feeds that were not announced
// are copied when they arrive.
TEST(GpuSessionTest, NextFeedsDoNotChangeResults) {
  const Layers layers;
  const auto batch = [](uint64_t seed, int64_t rows) {
    Random random(seed);
    return std::vector<Tensor>{RandomTensor(DT_FLOAT, Shape({rows, 6}), &random)};
  };
  const std::vector<std::vector<Tensor>> batches = {batch(1, 8), batch(2, 8), batch(3, 8),
                                                    batch(4, 8), batch(5, 5), batch(6, 8)};
  for (const bool logical : {false, true}) {
    Reset({.copy_in_delay = absl::Milliseconds(20)});
    TestSessionOptions on_gpus{.replicas = 2};
    if (logical) on_gpus.set_backend = SetLogicalFakeGpus;
    const auto gpus = OnFakes(layers, on_gpus);
    const auto cpus = CreateTestSession(layers.graph, {.replicas = 2});
    ASSERT_TRUE(gpus.ok() && cpus.ok()) << gpus.status() << cpus.status();
    Step step = PrepareStep(layers, **gpus), on_cpus = PrepareStep(layers, **cpus);
    for (size_t i = 0; i < batches.size(); ++i) {
      RunOptions options;
      // Step 1 announces a batch that is not the next one, and step 0 announces nothing.
      if (i > 0 && i + 1 < batches.size()) options.next_feeds = batches[i == 1 ? 5 : i + 1];
      const auto got = step.Run(batches[i], options), want = on_cpus.Run(batches[i]);
      ASSERT_TRUE(got.ok() && want.ok()) << got.status() << want.status();
      EXPECT_NEAR((*got)[0].scalar<float>(), (*want)[0].scalar<float>(), 1e-6) << i;
    }
    EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
  }
}

// A captured step is one launch, preceded by one copy to the GPU and followed by one copy to the
// host and one wait. All copies use pinned memory (the fake rejects others).
TEST(GpuSessionTest, StepCopiesOnceAndWaitsOnce) {
  const Layers layers;
  for (const bool announced : {false, true}) {
    Reset();
    const auto session = OnFakes(layers, {.replicas = 1});
    ASSERT_TRUE(session.ok()) << session.status();
    Step step = PrepareStep(layers, **session);
    const std::vector<Tensor> batch = BatchOf(8);
    RunOptions options;
    if (announced) options.next_feeds = batch;
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(step.Run(batch, options).ok());
    for (int i = 0; i < 3; ++i) {
      Reset();
      const CudaActivity before = ActivityOfSteps();
      ASSERT_TRUE(step.Run(batch, options).ok());
      const CudaActivity activity = ActivityOfSteps() - before;
      EXPECT_EQ(activity.copies_in, 1);
      EXPECT_EQ(activity.graph_launches, 1);
      EXPECT_EQ(activity.copies_out, 1);
      EXPECT_EQ(activity.waits, 1);
      EXPECT_EQ(HostTraffic().copies_in, 1);
      EXPECT_EQ(NumGraphLaunches(), 1);
      EXPECT_EQ(HostTraffic().copies_out, 1);
      EXPECT_EQ(HostTraffic().waits, 1);
    }
  }
}

// Fetches that do not fit in a step's report are copied separately.
TEST(GpuSessionTest, FetchesOfAnySizeArrive) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 3});
  const std::vector<Output> fetches = {ops::Neg(root, x), ops::Sum(root, x, {0, 1}), x,
                                       ops::Square(root, x), ops::Mean(root, x, {0, 1})};
  Reset();
  const auto gpu = CreateTestSession(graph, {.set_backend = SetFakeGpus});
  const auto cpu = CreateTestSession(graph, {});
  ASSERT_TRUE(gpu.ok() && cpu.ok()) << gpu.status() << cpu.status();
  for (const int64_t rows : {0, 1, 100, 300, 339, 340, 341, 5000}) {
    Random random(3);
    const std::vector<Tensor> batch = {RandomTensor(DT_FLOAT, Shape({rows, 3}), &random)};
    Step on_gpu = (*gpu)->Prepare({x}, fetches).value(),
         on_cpu = (*cpu)->Prepare({x}, fetches).value();
    for (int i = 0; i < 3; ++i) {
      const auto got = on_gpu.Run(batch), want = on_cpu.Run(batch);
      ASSERT_TRUE(got.ok() && want.ok()) << got.status() << want.status();
      for (size_t f = 0; f < fetches.size(); ++f) {
        EXPECT_EQ(Difference((*want)[f], (*got)[f], {.relative = 1e-5}), "")
            << "fetch " << f << " of " << rows << " rows";
      }
    }
  }
}

// The host does not wait for a step whose outcome it does not need, and can reuse the feeds
// immediately.
TEST(GpuSessionTest, StepWithoutFetchesIsNotAwaited) {
  const Layers layers;
  Reset();
  const auto gpu = OnFakes(layers, {.replicas = 1});
  const auto cpu = CreateTestSession(layers.graph, {.replicas = 1});
  ASSERT_TRUE(gpu.ok() && cpu.ok()) << gpu.status() << cpu.status();
  Step on_gpu = (*gpu)->Prepare({layers.x}, {}, {layers.train}).value(),
       on_cpu = (*cpu)->Prepare({layers.x}, {}, {layers.train}).value();
  std::vector<Tensor> batch = BatchOf(8);
  float* const x = batch[0].data<float>();
  for (int i = 0; i < 8; ++i) {
    Reset();
    for (int j = 0; j < 48; ++j) x[j] = static_cast<float>(i * j % 7) - 3;
    ASSERT_TRUE(on_cpu.Run(batch).ok());
    ASSERT_TRUE(on_gpu.Run(batch).ok());
    EXPECT_EQ(HostTraffic().waits, i > 0 ? 1 : 0) << i;  // for the previous step
    std::fill(x, x + 48, 1e9f);
  }
  for (const char* name : {"a", "b", "c"}) {
    const auto got = (*gpu)->ReadVariable(name), want = (*cpu)->ReadVariable(name);
    ASSERT_TRUE(got.ok() && want.ok()) << got.status() << want.status();
    EXPECT_EQ(Difference(*want, *got, {.relative = 1e-5, .absolute = 1e-6}), "") << name;
  }
  EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
}

TEST(GpuSessionTest, StuckStepWithoutFetchesFailsNextStep) {
  const Layers layers;
  Reset();
  TestSessionOptions options;
  options.session.step_timeout = absl::Seconds(1);
  const auto session = OnFakes(layers, options);
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = (*session)->Prepare({layers.x}, {}, {layers.train}).value();
  ASSERT_TRUE(step.Run(BatchOf(8)).ok());
  Reset({.stuck_operation = "memcpy"});
  EXPECT_TRUE(step.Run(BatchOf(8)).ok());
  const absl::Status next = step.Run(BatchOf(8)).status();
  EXPECT_THAT(next, IsError(absl::StatusCode::kDeadlineExceeded, "GPU:"));
  // The device is lost, and with it everything that the step has written.
  EXPECT_THAT((*session)->ReadVariable("a").status(),
              IsError(absl::StatusCode::kFailedPrecondition, "'a'"));
}

// Autotune trials and library handles use the GPU that runs the plan, whichever GPU the thread used
// before.
TEST(GpuSessionTest, PlanIsCreatedOnGpuThatRunsIt) {
  const Layers layers;
  Reset();
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  TestSessionOptions options;
  options.set_backend = [](const TestSessionOptions&, SessionBackend* backend) -> absl::Status {
    MF_RETURN_IF_ERROR(SetFakeGpus({.replicas = 1}, backend));
    MF_ASSIGN_OR_RETURN(backend->devices[0], CreateCudaDevice(0, /*ordinal=*/1));
    Reset();  // forgets the device that was replaced
    return absl::OkStatus();
  };
  options.session.compile.kernels.autotune = true;
  const auto session = OnFakes(layers, options);
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = PrepareStep(layers, **session);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_TRUE(step.Run(BatchOf(8)).ok());
  EXPECT_EQ(OperationsOf(0), std::vector<std::string>());
  EXPECT_GT(OperationsOf(1).size(), 10);
}

// One rank never arrives at a collective, and the other rank reports it.
TEST(GpuSessionTest, MissingLogicalGpuFailsOthersAtDeadline) {
  Reset();
  const auto device = CreateCudaDevice(0, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  auto ranks = CreateDeviceCopyCommunicators(2, 0, absl::Milliseconds(50));
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  Lane& lane = (*device)->lane(LaneKind::kCommunicate);
  const absl::Status alone = (*ranks)[0]->Start({.name = "alone"}, &lane);
  EXPECT_THAT(alone, IsError(absl::StatusCode::kDeadlineExceeded, "alone", "rank 0", "got 1"));
  EXPECT_EQ((*ranks)[1]->Start({.name = "late"}, &lane), alone);
  EXPECT_THAT(CreateDeviceCopyCommunicators(17, 0).status(),
              IsError(absl::StatusCode::kInvalidArgument, "got 17"));
}

// A captured step is not replayed after its arena has moved. A step that cannot be captured runs
// without a graph.
TEST(GpuSessionTest, CapturedStepsMatchUncapturedSteps) {
  const Layers layers;
  for (const char* failing_call : {"", "cudaStreamBeginCapture", "cudaGraphInstantiate"}) {
    ::testing::internal::CaptureStderr();
    Reset();
    const auto session = OnFakes(layers, {.replicas = 1});
    const auto cpu = CreateTestSession(layers.graph, {.replicas = 1});
    ASSERT_TRUE(session.ok() && cpu.ok()) << session.status() << cpu.status();
    Step step = PrepareStep(layers, **session), on_cpu = PrepareStep(layers, **cpu);
    for (const int64_t rows : {8, 8, 8, 300, 8, 8, 8, 300}) {
      if (rows == 8) Reset({.failing_call = failing_call});
      const auto got = step.Run(BatchOf(rows)), want = on_cpu.Run(BatchOf(rows));
      ASSERT_TRUE(got.ok() && want.ok()) << got.status() << want.status();
      EXPECT_NEAR((*got)[0].scalar<float>(), (*want)[0].scalar<float>(), 1e-6);
      EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
    }
    // A failing call logs exactly one warning.
    const std::string said = ::testing::internal::GetCapturedStderr();
    const std::vector<std::string> parts = absl::StrSplit(said, "runs without a CUDA graph");
    EXPECT_EQ(parts.size(), *failing_call == '\0' ? 1 : 2) << said;
    EXPECT_TRUE(absl::StrContains(parts.back(), failing_call)) << said;
  }
  Reset();
  const auto session = OnFakes(layers, {.replicas = 1});
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = PrepareStep(layers, **session);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(step.Run(BatchOf(8)).ok());
  Reset({.failing_call = "cudaGraphLaunch"});
  const absl::Status failed = step.Run(BatchOf(8)).status();
  EXPECT_THAT(failed, IsError(absl::StatusCode::kInternal, "cudaGraphLaunch"));
}

TEST(GpuSessionTest, DestroyedSessionReturnsItsMemory) {
  const Layers layers;
  Reset();
  const int64_t before = AllocatedCudaBytes();
  {
    const auto session = OnFakes(layers, {.replicas = 2});
    ASSERT_TRUE(session.ok()) << session.status();
    const int64_t variables = AllocatedCudaBytes();
    EXPECT_GT(variables, before);
    ASSERT_TRUE(RunStep(layers, **session).ok());
    EXPECT_GT(AllocatedCudaBytes(), variables);  // the arenas
  }
  EXPECT_EQ(AllocatedCudaBytes(), before);
}

TEST(GpuSessionTest, NcclErrorFailsAllRanksAndNewSessionWorks) {
  const Layers layers;
  Reset();
  {
    const auto session = OnFakes(layers, {.replicas = 3});
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(RunStep(layers, **session).ok());
    Reset({}, {.failing_rank = 1, .failing_collective = NumNcclCollectives() / 3 + 1});
    const MonotonicTime begin = MonotonicTime::Now();
    const auto loss = RunStep(layers, **session);
    EXPECT_THAT(loss.status(), IsError(absl::StatusCode::kUnavailable, "remote error"));
    EXPECT_LT(MonotonicTime::Now() - begin, absl::Seconds(30));
  }
  Reset();
  const auto session = OnFakes(layers, {.replicas = 3});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto loss = RunStep(layers, **session);
  EXPECT_TRUE(loss.ok()) << loss.status();
}

TEST(GpuSessionTest, StuckRankFailsStepAtDeadline) {
  const Layers layers;
  Reset();
  TestSessionOptions options{.replicas = 2};
  options.session.step_timeout = absl::Seconds(2);
  const auto session = OnFakes(layers, options);
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = PrepareStep(layers, **session);
  ASSERT_TRUE(step.Run(BatchOf(8)).ok());  // loads the code, which would also get stuck
  Reset({.stuck_operation = "Square"});
  const auto loss = step.Run(BatchOf(8));
  EXPECT_THAT(loss.status(), IsError(absl::StatusCode::kDeadlineExceeded, "GPU:"));
  // The stuck operation can still use the session's memory.
  EXPECT_THAT(RunStep(layers, **session).status(), IsError(absl::StatusCode::kUnavailable, "GPU:"));
}

TEST(GpuSessionTest, CudaErrorsNameCallAndDevice) {
  const Layers layers;
  for (const char* call : {"cudaMemcpyAsync", "cudaEventRecord", "cudaStreamWaitEvent"}) {
    Reset();
    const auto session = OnFakes(layers, {.replicas = 2});
    ASSERT_TRUE(session.ok()) << session.status();
    Reset({.failing_call = call});
    const auto loss = RunStep(layers, **session);
    EXPECT_THAT(loss.status(), IsError(absl::StatusCode::kInternal, call)) << call;
  }
  Reset({.failing_call = "cudaStreamCreateWithPriority"});
  const auto session = OnFakes(layers, {.replicas = 2});
  EXPECT_THAT(session.status(),
              IsError(absl::StatusCode::kInternal, "GPU:0", "cudaStreamCreateWithPriority"));
}

// With too little memory, the variables do not fit; with more, the values of a step do not. With
// slightly more memory than that, everything fits.
TEST(GpuSessionTest, OutOfMemoryErrorReportsSizeAndPurpose) {
  constexpr absl::StatusCode kExhausted = absl::StatusCode::kResourceExhausted;
  const Layers layers;
  size_t bytes = 4800;  // enough for the device itself
  std::vector<absl::Status> errors;
  for (; bytes < 40000; bytes += 200) {
    Reset({.memory_bytes = bytes});
    const auto session = OnFakes(layers, {.replicas = 1});
    const auto loss = session.ok() ? RunStep(layers, **session) : session.status();
    if (loss.ok()) break;
    EXPECT_THAT(loss.status(), IsError(kExhausted, absl::StrCat("of ", bytes)));
    errors.push_back(loss.status());
  }
  EXPECT_LT(bytes, 40000);
  ASSERT_FALSE(errors.empty());
  EXPECT_THAT(errors.front(), IsError(kExhausted, "GPU:0", "variables"));
  EXPECT_THAT(errors.back(), IsError(kExhausted, "GPU:0", "arena", "MatMul("));
}

TEST(GpuSessionTest, MissingDevicesAndUnconnectedRanksAreReported) {
  Reset();
  EXPECT_THAT(CreateCudaDevice(0, kGpus).status(), IsError(absl::StatusCode::kNotFound, "GPU:"));
  const auto connect = [](const std::vector<int>& gpus) {
    const std::vector<std::string> devices(gpus.size());
    std::vector<int> ranks(gpus.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    return ConnectNccl(Topology::OneWorker(devices, /*one_domain=*/false), ranks, gpus,
                       /*workers=*/nullptr, MonotonicTime::Now() + absl::Milliseconds(50));
  };
  EXPECT_THAT(connect({0, 1, 0}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "NCCL", "GPU 0 twice"));
  Reset({}, {.connecting_hangs = true});
  const auto hung = connect({0, 1});
  EXPECT_THAT(hung.status(), IsError(absl::StatusCode::kDeadlineExceeded, "NCCL"));
}

TEST(GpuSessionTest, CopiesLargerThanStagingMemoryArriveInOrder) {
  Reset();
  const auto device = CreateCudaDevice(0, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  const size_t bytes = (size_t{9} << 20) + 5;  // several times the staging memory
  const auto memory = (*device)->Allocate(bytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  std::vector<std::byte> in(bytes), out(bytes, std::byte{1});
  ASSERT_TRUE((*device)->CopyOut(memory->get(), out.data(), bytes).ok());
  EXPECT_EQ(out, in);  // zeros
  for (size_t i = 0; i < bytes; ++i) in[i] = static_cast<std::byte>(i * 31 >> 7);
  std::vector<std::byte> host = in;
  ASSERT_TRUE((*device)->CopyIn(host.data(), memory->get(), bytes).ok());
  std::fill(host.begin(), host.end(), std::byte{0});  // the caller can reuse it
  ASSERT_TRUE((*device)->CopyOut(memory->get(), out.data(), bytes).ok());
  EXPECT_EQ(out, in);
}

}  // namespace
}  // namespace mirrorflow
