// SPDX-License-Identifier: Apache-2.0
//
// Two workers with one GPU and one session each, on fakes of CUDA and NCCL.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/collective/nccl/fake_nccl.h"
#include "distribute/collective/nccl/nccl_communicator.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "kernels/cuda/fake_cuda.h"
#include "kernels/cuda/gpu.h"
#include "ops/ops.h"
#include "tests/support/test_workers.h"
#include "train/optimizer.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

void UseGpu(int worker, SessionBackend* backend) {
  backend->devices[0] = CreateGpu(worker).value();
  backend->has_teams = false;
  for (Topology::Place& replica : backend->topology.replicas) {
    replica.device = absl::StrCat("GPU:", replica.worker);
  }
  backend->connect = [worker](const Topology& topology, absl::Span<const int> ranks,
                              WorkerGroup* workers, uint64_t, absl::Time deadline) {
    return ConnectNccl(topology, ranks, {worker}, workers, deadline);
  };
}

struct Layer {
  Graph graph;
  Output x, loss;
  Operation train;

  Layer() {
    const Scope root(&graph);
    x = ops::Placeholder(root, DT_FLOAT, {-1, 6});
    const Output w = CreateVariable(root, "w", {6, 6}, initializers::GlorotUniform()).value;
    loss = ops::Mean(root, ops::Square(root, ops::MatMul(root, x, w)), {0, 1});
    train = SGD({.learning_rate = 0.1}).Minimize(root, loss);
  }
};

// Asked for several algorithms, the fake of cuBLASLt proposes two, of which only the second runs. A
// worker that does not measure must therefore receive the choice.
TEST(GpuWorkersTest, AllWorkersUseAlgorithmsTunedByFirst) {
  ResetFakeCuda({.num_gpus = 2});
  ResetFakeNccl();
  const Layer layer;
  TestWorkersOptions options{.replicas = 1};
  options.session.compile.kernels.autotune = true;
  options.change = [](int w, SessionOptions*, SessionBackend* backend) { UseGpu(w, backend); };
  const auto workers =
      TestWorkers::Create([&](int) -> const Graph& { return layer.graph; }, options);
  ASSERT_TRUE(workers.ok()) << workers.status();
  Tensor batch = Tensor::Allocate(DT_FLOAT, {4, 6}).value();
  for (int i = 0; i < 24; ++i) batch.flat<float>()[i] = 0.1f * i;
  std::vector<float> losses[2];
  const absl::Status trained = (*workers)->OnAll([&](int w) -> absl::Status {
    Session& session = (*workers)->session(w);
    MF_ASSIGN_OR_RETURN(Step step, session.Prepare({layer.x}, {layer.loss}, {layer.train}));
    // The last step runs on a new connection, on which the workers agree again.
    for (int i = 0; i < 3; ++i) {
      MF_ASSIGN_OR_RETURN(const StepOutputs outputs, step.Run({batch}));
      losses[w].push_back(outputs[0].flat<float>()[0]);
      if (i == 1) MF_RETURN_IF_ERROR(session.Reconnect());
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(trained.ok()) << trained;
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_LT(losses[0].back(), losses[0].front());
}

}  // namespace
}  // namespace mirrorflow
