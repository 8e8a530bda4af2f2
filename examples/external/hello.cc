// SPDX-License-Identifier: Apache-2.0
//
// A program in another Bazel workspace: sums ten numbers over two replicas.
#include <cstdio>

#include "mirrorflow.h"

namespace mf = mirrorflow;

absl::Status Run() {
  MF_ASSIGN_OR_RETURN(auto strategy, mf::MirroredStrategy::Create({.num_cpu_replicas = 2}));
  mf::Graph graph;
  mf::Scope root(&graph);
  auto x = mf::ops::Placeholder(root.WithName("x"), mf::DT_FLOAT, {-1});
  auto sum = mf::ops::Sum(root, x, {0});
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(auto step, session->Prepare({x}, {sum}));
  MF_ASSIGN_OR_RETURN(auto out,
                      step.Run({mf::Tensor::Vector<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10})}));
  std::printf("sum: %.0f\n", out[0].scalar<float>());
  return absl::OkStatus();
}

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
