// SPDX-License-Identifier: Apache-2.0
//
// What runs on GPUs, on doubles of CUDA and NCCL: that a step gives what it should, that what it
// enqueues is ordered by streams and events and not by luck, that ranks give NCCL the same
// collectives, and how it fails.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distribute/collective/device_copy/device_copy_communicator.h"
#include "distribute/collective/nccl/nccl_communicator.h"
#include "distribute/collective/nccl/nccl_double.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_double.h"
#include "ops/ops.h"
#include "tests/support/compare_with_reference.h"
#include "tests/support/gpu_doubles.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"
#include "train/optimizer.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr int kGpus = 4;

void Reset(CudaDoubleOptions cuda = {}, const NcclDoubleOptions& nccl = {}) {
  cuda.num_gpus = kGpus;
  ResetCudaDouble(cuda);
  ResetNcclDouble(nccl);
}

// Two layers that are trained, so that there are several collectives.
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

absl::StatusOr<std::unique_ptr<Session>> OnDoubles(const Layers& layers,
                                                   TestSessionOptions options) {
  if (!options.set_backend) options.set_backend = SetGpuDoubles;
  options.session.bucket_bytes = 64;  // a collective a variable
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

// Random programs on GPUs that `set_backend` gives.
template <typename SetBackend>
void CheckRandomPrograms(uint64_t first, SetBackend set_backend) {
  for (uint64_t seed = first; seed < first + 60; ++seed) {
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

TEST(GpuSessionTest, RandomProgramsGiveWhatTheReferenceInterpreterGives) {
  CheckRandomPrograms(1, SetGpuDoubles);
}

TEST(GpuSessionTest, RandomProgramsOnLogicalGpusGiveTheSame) {
  CheckRandomPrograms(61, SetLogicalGpuDoubles);
}

TEST(GpuSessionTest, AStepEnqueuesItsCollectivesInOrder) {
  Reset();
  const Layers layers;
  const auto session = OnDoubles(layers, {.replicas = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto loss = RunStep(layers, **session);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_GE(NumNcclCollectives(), 2 * 4);  // three gradients and the loss on each rank
  EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
}

// Without any of the waits of a step, two operations have no order: those of the four collectives
// for what they read, and of their results' readers for them. The lanes' two at the beginning are
// repeated by the first of these.
TEST(GpuSessionTest, AnEventThatIsLeftOutIsFound) {
  const Layers layers;
  // The first step runs an instruction at a time, the third repeats graphs.
  for (const int steps_before : {0, 2}) {
    std::vector<int> found;
    int num_waits = 1;
    for (int wait = 0; wait < num_waits; ++wait) {
      Reset();
      // With fewer kernels one of the waits is the consequence of others.
      TestSessionOptions options{.replicas = 2};
      options.session.compile.disabled_passes = {"fuse_elementwise"};
      const auto session = OnDoubles(layers, options);
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
    EXPECT_EQ(num_waits, 10);
    EXPECT_EQ(found, std::vector<int>({2, 3, 4, 5, 6, 7, 8, 9})) << steps_before;
  }
}

// Issues its second collective before its first one.
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

TEST(GpuSessionTest, RanksWithAnotherOrderOfBucketsAreFound) {
  Reset();
  const Layers layers;
  TestSessionOptions options{.replicas = 2};
  options.wrap_communicator = [](std::unique_ptr<Communicator> c) -> std::unique_ptr<Communicator> {
    if (c->rank() != 1) return c;
    return std::make_unique<Swapping>(std::move(c));
  };
  const auto session = OnDoubles(layers, options);
  const auto loss = session.ok() ? RunStep(layers, **session) : session.status();
  EXPECT_FALSE(loss.ok());
  EXPECT_TRUE(absl::StrContains(NcclMisuse().message(), "others")) << NcclMisuse();

  options.set_backend = SetLogicalGpuDoubles;
  const auto logical = OnDoubles(layers, options);
  const auto refused = logical.ok() ? RunStep(layers, **logical) : logical.status();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << refused.status();
  EXPECT_TRUE(absl::StrContains(refused.status().message(), "rank 1 has ")) << refused.status();
}

// Losses of a step on logical GPUs are those of CPUs, to the rounding of their kernels.
TEST(GpuSessionTest, LogicalGpusGiveTheLossesOfCpus) {
  const Layers layers;
  for (const int replicas : {1, 2, 3, 4}) {
    Reset();
    const auto gpus =
        OnDoubles(layers, {.replicas = replicas, .set_backend = SetLogicalGpuDoubles});
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

// The feeds of the next step travel while this one computes; what comes otherwise than was said is
// copied when it comes.
TEST(GpuSessionTest, NextFeedsGiveWhatFeedsGive) {
  const Layers layers;
  const auto batch = [](uint64_t seed, int64_t rows) {
    Random random(seed);
    return std::vector<Tensor>{RandomTensor(DT_FLOAT, Shape({rows, 6}), &random)};
  };
  const std::vector<std::vector<Tensor>> batches = {batch(1, 8), batch(2, 8), batch(3, 8),
                                                    batch(4, 5), batch(5, 8), batch(6, 8)};
  for (const bool logical : {false, true}) {
    Reset();
    TestSessionOptions on_gpus{.replicas = 2};
    if (logical) on_gpus.set_backend = SetLogicalGpuDoubles;
    const auto gpus = OnDoubles(layers, on_gpus);
    const auto cpus = CreateTestSession(layers.graph, {.replicas = 2});
    ASSERT_TRUE(gpus.ok() && cpus.ok()) << gpus.status() << cpus.status();
    Step step = PrepareStep(layers, **gpus), on_cpus = PrepareStep(layers, **cpus);
    for (size_t i = 0; i < batches.size(); ++i) {
      RunOptions options;
      // Once another batch is announced than comes.
      if (i + 1 < batches.size()) options.next_feeds = batches[i == 3 ? 0 : i + 1];
      const auto got = step.Run(batches[i], options), want = on_cpus.Run(batches[i]);
      ASSERT_TRUE(got.ok() && want.ok()) << got.status() << want.status();
      EXPECT_NEAR((*got)[0].scalar<float>(), (*want)[0].scalar<float>(), 1e-6) << i;
    }
    EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
  }
}

// A rank whose host does not come to a collective: the others say so.
TEST(GpuSessionTest, ALogicalGpuThatDoesNotComeEndsTheOthersByTheDeadline) {
  Reset();
  const auto device = CreateCudaDevice(0, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  auto ranks = CreateDeviceCopyCommunicators(2, 0, {.timeout = absl::Milliseconds(50)});
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  Lane& lane = (*device)->lane(LaneKind::kCommunicate);
  const absl::Status alone = (*ranks)[0]->Start({.name = "alone"}, &lane);
  EXPECT_EQ(alone.code(), absl::StatusCode::kDeadlineExceeded) << alone;
  EXPECT_EQ((*ranks)[1]->Start({.name = "late"}, &lane), alone);
  EXPECT_EQ(CreateDeviceCopyCommunicators(17, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A step whose arena has moved is not repeated where it was; one that cannot be captured is run.
TEST(GpuSessionTest, CapturedStepsGiveWhatOthersGive) {
  const Layers layers;
  for (const char* failing_call : {"", "cudaStreamBeginCapture", "cudaGraphInstantiate"}) {
    Reset();
    const auto session = OnDoubles(layers, {.replicas = 1});
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
  }
  Reset();
  const auto session = OnDoubles(layers, {.replicas = 1});
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = PrepareStep(layers, **session);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(step.Run(BatchOf(8)).ok());
  Reset({.failing_call = "cudaGraphLaunch"});
  const absl::Status failed = step.Run(BatchOf(8)).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kInternal) << failed;
  EXPECT_TRUE(absl::StrContains(failed.message(), "cudaGraphLaunch")) << failed;
}

TEST(GpuSessionTest, AnErrorOfNcclIsEverybodysAndANewSessionWorks) {
  const Layers layers;
  Reset();
  {
    const auto session = OnDoubles(layers, {.replicas = 3});
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(RunStep(layers, **session).ok());
    Reset({}, {.failing_rank = 1, .failing_collective = NumNcclCollectives() / 3 + 1});
    const absl::Time begin = absl::Now();
    const auto loss = RunStep(layers, **session);
    EXPECT_EQ(loss.status().code(), absl::StatusCode::kUnavailable) << loss.status();
    EXPECT_TRUE(absl::StrContains(loss.status().message(), "remote error")) << loss.status();
    EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
  }
  Reset();
  const auto session = OnDoubles(layers, {.replicas = 3});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto loss = RunStep(layers, **session);
  EXPECT_TRUE(loss.ok()) << loss.status();
}

TEST(GpuSessionTest, ARankThatStopsEndsTheOthersByTheDeadline) {
  const Layers layers;
  Reset({.stuck_operation = "Square"});
  TestSessionOptions options{.replicas = 2};
  options.session.step_timeout = absl::Seconds(2);
  const auto session = OnDoubles(layers, options);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto loss = RunStep(layers, **session);
  EXPECT_EQ(loss.status().code(), absl::StatusCode::kDeadlineExceeded) << loss.status();
  EXPECT_TRUE(absl::StrContains(loss.status().message(), "GPU:")) << loss.status();
  // Its memory may still be in use.
  EXPECT_EQ(RunStep(layers, **session).status().code(), absl::StatusCode::kUnavailable);
}

TEST(GpuSessionTest, ErrorsOfCudaNameTheCallAndTheDevice) {
  const Layers layers;
  for (const char* call : {"cudaMemcpyAsync", "cudaEventRecord", "cudaStreamWaitEvent"}) {
    Reset();
    const auto session = OnDoubles(layers, {.replicas = 2});
    ASSERT_TRUE(session.ok()) << session.status();
    Reset({.failing_call = call});
    const auto loss = RunStep(layers, **session);
    EXPECT_EQ(loss.status().code(), absl::StatusCode::kInternal) << call;
    EXPECT_TRUE(absl::StrContains(loss.status().message(), call)) << loss.status();
  }
  Reset({.failing_call = "cudaStreamCreateWithFlags"});
  const auto session = OnDoubles(layers, {.replicas = 2});
  EXPECT_TRUE(absl::StrContains(session.status().message(), "GPU:0")) << session.status();
}

// First there is no room for the variables, then for the values of a step; with a little more there
// is.
TEST(GpuSessionTest, WantOfMemorySaysHowMuchThereIsAndForWhat) {
  const Layers layers;
  size_t bytes = 600;  // enough for the device itself
  std::vector<std::string> errors;
  for (; bytes < 40000; bytes += 200) {
    Reset({.memory_bytes = bytes});
    const auto session = OnDoubles(layers, {.replicas = 1});
    const auto loss = session.ok() ? RunStep(layers, **session) : session.status();
    if (loss.ok()) break;
    EXPECT_EQ(loss.status().code(), absl::StatusCode::kResourceExhausted) << loss.status();
    EXPECT_TRUE(absl::StrContains(loss.status().message(), absl::StrCat("free ones of ", bytes)))
        << loss.status();
    errors.emplace_back(loss.status().message());
  }
  EXPECT_LT(bytes, 40000);
  ASSERT_FALSE(errors.empty());
  EXPECT_TRUE(absl::StrContains(errors.front(), "variables of replica 0 on GPU:0")) << errors[0];
  EXPECT_TRUE(absl::StrContains(errors.back(), "arena of replica 0 on GPU:0")) << errors.back();
  EXPECT_TRUE(absl::StrContains(errors.back(), "the largest values: MatMul(")) << errors.back();
}

TEST(GpuSessionTest, DevicesThatAreNotThereAndRanksThatDoNotConnect) {
  Reset();
  EXPECT_EQ(CreateCudaDevice(0, kGpus).status().code(), absl::StatusCode::kNotFound);
  const auto connect = [](const std::vector<int>& gpus) {
    const std::vector<std::string> devices(gpus.size());
    std::vector<int> ranks(gpus.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    return ConnectNccl(Topology::OneWorker(devices, /*one_domain=*/false), ranks, gpus,
                       /*workers=*/nullptr, absl::Now() + absl::Milliseconds(50));
  };
  EXPECT_EQ(connect({0, 1, 0}).status().code(), absl::StatusCode::kInvalidArgument);
  Reset({}, {.connecting_hangs = true});
  const auto hung = connect({0, 1});
  EXPECT_EQ(hung.status().code(), absl::StatusCode::kDeadlineExceeded) << hung.status();
}

TEST(GpuSessionTest, CopiesOfAnySizeArriveInOrder) {
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
  std::fill(host.begin(), host.end(), std::byte{0});  // it may be used for something else
  ASSERT_TRUE((*device)->CopyOut(memory->get(), out.data(), bytes).ok());
  EXPECT_EQ(out, in);
}

}  // namespace
}  // namespace mirrorflow
