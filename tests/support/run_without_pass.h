// SPDX-License-Identifier: Apache-2.0
//
// Runs a program with and without a pass, for tests that compare the two.
#ifndef MIRRORFLOW_TESTS_SUPPORT_RUN_WITHOUT_PASS_H_
#define MIRRORFLOW_TESTS_SUPPORT_RUN_WITHOUT_PASS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/shape.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

struct PassProgram {
  Graph graph;
  std::vector<Output> feeds, fetches;
  std::vector<Operation> targets;
  std::vector<Shape> shapes;                 // of the feeds, which are float
  std::vector<Tensor> values;                // of the feeds; random if empty
  std::vector<std::string> disabled_passes;  // in every run

  struct Outcome {
    std::vector<Tensor> values;    // of the fetches
    std::vector<std::string> ops;  // of the first replica's plan

    int64_t Count(absl::string_view op) const;
  };
  // Runs the program once on CPUs. Every call feeds the same values. `without` names a pass to
  // disable; if it is empty, all passes run.
  absl::StatusOr<Outcome> Run(int replicas, absl::string_view without = "") const;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_RUN_WITHOUT_PASS_H_
