#include "mirrorflow.h"
namespace mf = mirrorflow;

absl::Status Train() {
  MF_ASSIGN_OR_RETURN(auto strategy, mf::MirroredStrategy::Create({.num_cpu_replicas = 2}));
  mf::Graph graph;
  mf::Scope root(&graph);
  auto mirrored = strategy->scope();  // variables created from here on are mirrored
  auto images = mf::ops::Placeholder(root.WithName("images"), mf::DT_FLOAT, {-1, 784});
  auto labels = mf::ops::Placeholder(root.WithName("labels"), mf::DT_INT32, {-1});
  auto logits = mf::layers::Dense(root, mf::layers::Dense(root, images, 128, mf::ops::Relu), 10);
  auto loss = mf::losses::SparseSoftmaxCrossEntropy(root, logits, labels);
  auto train = mf::Momentum({.learning_rate = 0.1, .momentum = 0.9}).Minimize(root, loss);
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(auto step, session->Prepare({images, labels}, {loss}, {train}));
  MF_ASSIGN_OR_RETURN(auto dataset, mf::FashionMnist::Open({.split = mf::Split::kTrain}));
  auto input = strategy->Distribute(dataset.Shuffle(/*seed=*/1).Batch(256));
  float last = 0;
  for (mf::DistributedBatch batch; input.Next(&batch);) {
    MF_ASSIGN_OR_RETURN(auto out, step.Run(batch));
    last = out[0].scalar<float>();
  }
  std::printf("loss after one epoch: %.2f\n", last);
  return input.status();
}

int main() {
  absl::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
