// SPDX-License-Identifier: Apache-2.0
//
// Tests that the fakes detect unordered accesses, misuse of NCCL and cuDNN, and missing barriers.
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/libraries/cudnn_graph.h"
#include "tests/fakes/cuda/block_emulator.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/nccl/fake_nccl.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

class FakesTest : public testing::Test {
 protected:
  void SetUp() override {
    ResetFakeCuda({.num_gpus = 2});
    ResetFakeNccl();
    for (int gpu = 0; gpu < 2; ++gpu) {
      cudaSetDevice(gpu);
      cudaStreamCreateWithFlags(&streams_[gpu], cudaStreamNonBlocking);
      cudaEventCreateWithFlags(&events_[gpu], cudaEventDisableTiming);
    }
  }
  void TearDown() override {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  void Launch(int stream, const char* name, bool is_write) {
    LaunchOnFake(streams_[stream], name, {{&memory_, sizeof memory_, is_write}}, [] {});
  }
  void WaitFor(int stream) {
    cudaEventRecord(events_[stream], streams_[stream]);
    while (cudaEventQuery(events_[stream]) == cudaErrorNotReady) std::this_thread::yield();
  }

  // Connects two ranks, inside or outside an NCCL group.
  std::vector<ncclComm_t> Connect(bool in_a_group) {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    std::vector<ncclComm_t> ranks(2);
    if (in_a_group) ncclGroupStart();
    for (int r = 0; r < 2; ++r) ncclCommInitRankConfig(&ranks[r], 2, id, r, &config);
    if (in_a_group) ncclGroupEnd();
    for (ncclComm_t rank : ranks) WaitWhileInProgress(rank);
    return ranks;
  }
  static void WaitWhileInProgress(ncclComm_t rank) {
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(rank, &state);
  }
  ncclResult_t Enqueue(ncclComm_t rank, int stream, ncclRedOp_t op = ncclSum) {
    return ncclAllReduce(&sums_[stream], &sums_[stream], 1, ncclFloat, op, rank, streams_[stream]);
  }
  ncclResult_t AllReduce(ncclComm_t rank, int stream, ncclRedOp_t op = ncclSum) {
    const ncclResult_t result = Enqueue(rank, stream, op);
    WaitWhileInProgress(rank);
    return result;
  }
  void ExpectMisuse(const char* what) {
    EXPECT_THAT(NcclMisuse(), IsError(absl::StatusCode::kFailedPrecondition, what));
  }

  cudaStream_t streams_[2];
  cudaEvent_t events_[2];
  float memory_ = 0;
  float sums_[2] = {1, 2};
};

TEST_F(FakesTest, UnorderedAccessesToSameBytesAreReported) {
  Launch(0, "write", true);
  Launch(1, "read", false);
  EXPECT_THAT(CheckRecordedOrder(),
              IsError(absl::StatusCode::kFailedPrecondition, "write (stream", "and read (stream"));
}

TEST_F(FakesTest, TwoReadsNeedNoOrder) {
  Launch(0, "read", false);
  Launch(1, "read", false);
  EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
}

TEST_F(FakesTest, EventOrdersOnlyWorkRecordedBeforeIt) {
  Launch(0, "write", true);
  cudaEventRecord(events_[0], streams_[0]);
  cudaStreamWaitEvent(streams_[1], events_[0], 0);
  Launch(1, "read", false);
  EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
  Launch(0, "write again", true);
  EXPECT_THAT(CheckRecordedOrder(), IsError(absl::StatusCode::kFailedPrecondition, "read (stream",
                                            "and write again (stream"));
}

TEST_F(FakesTest, HostWaitOrdersLaterLaunches) {
  Launch(0, "write", true);
  WaitFor(0);
  Launch(1, "write", true);
  EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
}

TEST_F(FakesTest, AllReduceSumsOverRanks) {
  const auto ranks = Connect(/*in_a_group=*/true);
  std::thread other([&] { AllReduce(ranks[1], 1); });
  AllReduce(ranks[0], 0);
  other.join();
  WaitFor(0);
  WaitFor(1);
  EXPECT_EQ(sums_[0], 3);
  EXPECT_EQ(sums_[1], 3);
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
  for (ncclComm_t rank : ranks) ncclCommAbort(rank);
}

TEST_F(FakesTest, DifferentReductionsAreMisuse) {
  const auto ranks = Connect(/*in_a_group=*/true);
  AllReduce(ranks[0], 0, ncclSum);
  AllReduce(ranks[1], 1, ncclMax);
  ExpectMisuse("rank 1 has");
  ncclResult_t state = ncclSuccess;
  ncclCommGetAsyncError(ranks[0], &state);
  EXPECT_EQ(state, ncclInvalidUsage);
  for (ncclComm_t rank : ranks) ncclCommAbort(rank);
}

TEST_F(FakesTest, SharingRankBetweenThreadsIsMisuse) {
  const auto ranks = Connect(/*in_a_group=*/true);
  AllReduce(ranks[0], 0);
  std::thread([&] { AllReduce(ranks[0], 0); }).join();
  ExpectMisuse("two threads");
  for (ncclComm_t rank : ranks) ncclCommAbort(rank);
}

TEST_F(FakesTest, CollectiveWithAbortedRankReducesNothing) {
  const auto ranks = Connect(/*in_a_group=*/true);
  ncclCommAbort(ranks[0]);
  EXPECT_EQ(AllReduce(ranks[1], 1), ncclSuccess);
  cudaEventRecord(events_[1], streams_[1]);
  EXPECT_EQ(cudaEventQuery(events_[1]), cudaErrorNotReady);
  ncclCommAbort(ranks[1]);
  WaitFor(1);
  EXPECT_EQ(sums_[1], 2);  // not reduced
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
}

TEST_F(FakesTest, RankThatConnectsTwiceIsMisuse) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t ranks[2];
  ncclGroupStart();
  for (ncclComm_t& rank : ranks) ncclCommInitRankConfig(&rank, 2, id, 0, &config);
  ncclGroupEnd();
  ExpectMisuse("rank 0 connects twice");
  for (ncclComm_t rank : ranks) ncclCommAbort(rank);
}

TEST_F(FakesTest, CallWhileAnotherIsInProgressIsMisuse) {
  const auto ranks = Connect(/*in_a_group=*/true);
  ncclGroupStart();
  Enqueue(ranks[0], 0);
  Enqueue(ranks[0], 0);
  ncclGroupEnd();
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
  Enqueue(ranks[0], 0);
  ExpectMisuse("in progress");
  for (ncclComm_t rank : ranks) ncclCommAbort(rank);
}

TEST_F(FakesTest, ConnectingSeveralRanksOutsideGroupIsMisuse) {
  for (ncclComm_t rank : Connect(/*in_a_group=*/false)) ncclCommAbort(rank);
  ExpectMisuse("outside a group");
}

// A 1x1 convolution with a bias.
class FakeCudnnTest : public FakesTest {
 protected:
  void SetUp() override {
    FakesTest::SetUp();
    const Window pixel = {.in = 1, .out = 1, .size = 1};
    const auto gpu = PropertiesOfGpu();
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    const auto engines = ProposeEngines(
        {.geometry = {.batch = 1, .in_channels = 1, .out_channels = 1, .h = pixel, .w = pixel},
         .epilogue = CudnnEpilogue::kBias},
        *gpu, 1);
    ASSERT_TRUE(engines.ok()) << engines.status();
    engine_ = engines->front();
    images_[0] = 2;
    filter_[0] = 3;
    bias_[0] = 4;
  }
  absl::Status Execute(const CudnnOperands& operands) {
    return lane_.Execute(streams_[0], engine_, BindingsOf(operands));
  }
  CudnnOperands Operands() {
    return {.images = images_,
            .filter = filter_,
            .output = output_,
            .bias = bias_,
            .workspace = workspace_};
  }
  static void ExpectError(const absl::Status& status, const char* what) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInternal, what));
  }

  std::shared_ptr<const CudnnEngine> engine_;
  CudnnLane lane_;
  alignas(64) float images_[32] = {}, filter_[32] = {}, output_[32] = {}, bias_[32] = {};
  alignas(64) std::byte workspace_[4096];
};

TEST_F(FakeCudnnTest, ConvolutionAddsBias) {
  ASSERT_EQ(Execute(Operands()), absl::OkStatus());
  WaitFor(0);
  EXPECT_EQ(output_[0], 10);
}

TEST_F(FakeCudnnTest, MisalignedOperandIsRejected) {
  for (void* CudnnOperands::*each : {&CudnnOperands::images, &CudnnOperands::filter,
                                     &CudnnOperands::output, &CudnnOperands::bias}) {
    CudnnOperands operands = Operands();
    operands.*each = static_cast<float*>(operands.*each) + 4;  // 16 bytes
    ExpectError(Execute(operands), "not aligned");
  }
}

TEST_F(FakeCudnnTest, TensorWithoutAddressIsRejected) {
  CudnnOperands operands = Operands();
  operands.bias = nullptr;
  ExpectError(Execute(operands), "per tensor");
  operands = Operands();
  operands.images = nullptr;
  ExpectError(Execute(operands), "has no address");
}

TEST_F(FakeCudnnTest, SmallWorkspaceIsRejected) {
  CudnnOperands operands = Operands();
  {
    const FakeAccesses watched("kernel", {{workspace_, engine_->workspace_bytes - 1, true}});
    ExpectError(Execute(operands), "too small");
  }
  const FakeAccesses watched("kernel", {{workspace_, engine_->workspace_bytes, true}});
  EXPECT_EQ(Execute(operands), absl::OkStatus());
  WaitFor(0);
  operands.workspace = nullptr;
  ExpectError(Execute(operands), "too small");
}

TEST_F(FakeCudnnTest, ExecutingPlanWithAnotherHandleIsRejected) {
  const auto plan = engine_->MakePlan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto pack = CudnnBuilder(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
                        .Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::vector<int64_t>{1, 2, 3, 4})
                        .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                             std::vector<void*>{images_, filter_, output_, bias_})
                        .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, static_cast<void*>(workspace_))
                        .Build();
  ASSERT_TRUE(pack.ok()) << pack.status();
  cudnnHandle_t handles[2];
  for (int i = 0; i < 2; ++i) {
    cudnnCreate(&handles[i]);
    cudnnSetStream(handles[i], streams_[i]);
  }
  EXPECT_EQ(cudnnBackendExecute(handles[0], plan->get(), pack->get()), CUDNN_STATUS_SUCCESS);
  EXPECT_NE(cudnnBackendExecute(handles[1], plan->get(), pack->get()), CUDNN_STATUS_SUCCESS);
  WaitFor(0);
  for (cudnnHandle_t handle : handles) cudnnDestroy(handle);
}

// Two warps write to memory, read what the other warp wrote, and overwrite what they themselves
// wrote. In between, each warp waits only for its own threads, as kernels that use tensor cores do.
EmulatedHere here;
enum Missing { kNoBarrier, kBeforeReads, kBeforeOverwrites } missing;
unsigned int shared[64];
int wrong;

void UseOthersNumbers(void**) {
  const unsigned int thread = here.thread.x, number = here.block.x + 1;
  shared[thread] = number;
  if (missing != kBeforeReads) here.wait(0);
  here.wait(1);
  wrong += shared[63 - thread] != number;
  here.wait(1);
  if (missing != kBeforeOverwrites) here.wait(0);
  shared[thread] = 0;
}

TEST(BlockEmulatorTest, MissingBarrierChangesResults) {
  for (const Missing each : {kNoBarrier, kBeforeReads, kBeforeOverwrites}) {
    missing = each;
    for (uint64_t seed = 0; seed < 10; ++seed) {
      wrong = 0;
      RunGrid(UseOthersNumbers, nullptr, &here, dim3(8), dim3(64), seed);
      EXPECT_EQ(wrong > 0, missing != kNoBarrier) << missing << " " << seed;
    }
  }
}

}  // namespace
}  // namespace mirrorflow
