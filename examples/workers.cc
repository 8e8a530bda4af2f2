// SPDX-License-Identifier: Apache-2.0
//
// A program that runs as one process or as several, on one host or on several, with the same
// result. Whatever starts the processes (docs/clusters.md) also describes the cluster to them:
//
//   mirrorflow launch -n 2 -- workers
#include <cstdio>

#include "mirrorflow.h"
namespace mf = mirrorflow;

namespace {

absl::Status Train() {
  MF_ASSIGN_OR_RETURN(const mf::Cluster cluster,
                      mf::ClusterResolver::FromEnvironment(mf::ProcessEnvironment()));
  MF_ASSIGN_OR_RETURN(auto strategy,
                      mf::MultiWorkerMirroredStrategy::Create(
                          {.cluster = cluster, .replicas = {.num_cpu_replicas = 1}}));
  mf::Graph graph;
  mf::Scope root(&graph);
  auto mirrored = strategy->scope();
  auto images = mf::ops::Placeholder(root.WithName("images"), mf::DT_FLOAT, {-1, 784});
  auto labels = mf::ops::Placeholder(root.WithName("labels"), mf::DT_INT32, {-1});
  auto logits = mf::layers::Dense(root, mf::layers::Dense(root, images, 128, mf::ops::Relu), 10);
  auto loss = mf::losses::SparseSoftmaxCrossEntropy(root, logits, labels);
  auto train = mf::Momentum({.learning_rate = 0.1, .momentum = 0.9}).Minimize(root, loss);
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(auto step, session->Prepare({images, labels}, {loss}, {train}));
  MF_ASSIGN_OR_RETURN(auto dataset, mf::FashionMnist::Open({.split = mf::Split::kTrain}));
  // Batches of 256 rows. Each worker reads only the rows of its own replicas.
  auto input = strategy->Distribute(dataset.Shuffle(/*seed=*/1).Batch(256).Take(100));
  float last = 0;
  for (mf::DistributedBatch batch; input.Next(&batch);) {
    MF_ASSIGN_OR_RETURN(auto out, step.Run(batch));
    last = out[0].scalar<float>();
  }
  MF_RETURN_IF_ERROR(input.status());
  // Every worker has the loss of the global batch, so only one prints it.
  if (strategy->worker() == 0) {
    std::printf("loss after 100 steps with %d replicas: %.4f\n", strategy->num_replicas_in_sync(),
                last);
  }
  return absl::OkStatus();
}

}  // namespace

int main() {
  absl::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
