// SPDX-License-Identifier: Apache-2.0
//
// `gpu_check figures`: measurements of GPU 0 that need no peer. They are the rates of products, an
// optimizer and copies, the number of kernels per layer, and the time to capture a step.
#ifndef MIRRORFLOW_TESTS_GPU_CHECK_FIGURES_H_
#define MIRRORFLOW_TESTS_GPU_CHECK_FIGURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mirrorflow {

struct FigureOptions {
  int64_t product_size = 8192;                 // rows and columns of square bfloat16 matrices
  int64_t updated_bytes = int64_t{256} << 20;  // size of the variables that Adam updates
  int64_t copied_bytes = int64_t{1} << 30;
  int rounds = 9;
  double round_ms = 100;
};

struct Figure {
  std::string name;
  std::vector<double> values;  // one per round
};

// Measures these figures:
//   product       operations per second; a multiply-add counts as two
//   update, copy  bytes read or written per second, measured in turns
//   layer         kernels that an additional dense layer with an activation adds to a training step
//   capture       extra milliseconds of the step that captures a thousand kernels, compared to
//                 the next step, which only launches them
absl::StatusOr<std::vector<Figure>> MeasureFigures(const FigureOptions& options = {});

// Prints one line of JSON per figure.
absl::Status PrintFigures();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_GPU_CHECK_FIGURES_H_
