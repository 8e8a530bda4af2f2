// SPDX-License-Identifier: Apache-2.0
//
// The training steps that `mirrorflow bench` measures: a model, gradient descent, and a batch of
// noise that is there before the step.
#ifndef MIRRORFLOW_TOOLS_BENCH_TRAINING_H_
#define MIRRORFLOW_TOOLS_BENCH_TRAINING_H_

#include <memory>
#include <string>
#include <vector>

#include "mirrorflow.h"

namespace mirrorflow {

inline constexpr double kBenchLearningRate = 0.01;  // that of the peers, too

// What is trained how; `batch_size` is of a replica.
struct TrainingCase {
  std::string model;
  int64_t batch_size = 64;
  int replicas = 1;
  std::vector<std::string> without = {};  // compiler passes that are left out
  std::string optimizer = "sgd";
};

struct TrainingGraph {
  Graph graph;
  Output inputs;
  Output labels;
  Output loss;
  std::vector<Operation> targets;  // what trains; nothing of a chain
  int64_t classes = 10;            // of the labels, and of inputs that are tokens
};

// A training step, ready to run.
struct TrainingStep {
  std::unique_ptr<MirroredStrategy> strategy;
  std::unique_ptr<Session> session;
  Step step;
  std::vector<Tensor> feeds;  // inputs and labels of the global batch
};

// mlp, cnn and resnet are those of the examples.
// big: 1024-2048-2048-10 with ReLU.
// lstm: a classifier of sequences in some 2,000 small ops.
// transformer: a language model of width 256, in 4 blocks.
// gpt2: GPT-2 of 124M parameters; resnet50: ResNet-50 of 224×224 pixels and 1,000 classes.
// chain: 1,000 sines of a number, without a train op.
// Without an optimizer by that which such a model is usually trained by. InvalidArgument for
// another name, or another optimizer.
absl::StatusOr<TrainingGraph> BuildTraining(const Strategy& strategy, absl::string_view model,
                                            absl::string_view optimizer = "");

// InvalidArgument unless BuildTraining knows it.
absl::Status CheckOptimizer(absl::string_view optimizer);

// Floats in [0, 1) without a pattern, equal in every run; of another dtype zeros, which are labels
// and indices of anything.
absl::StatusOr<Tensor> NoiseOf(DataType dtype, const Shape& shape);

// Noise, or tokens without a pattern, and labels that are some.
absl::StatusOr<std::vector<Tensor>> NoiseBatch(const TrainingGraph& training, int64_t rows);

absl::StatusOr<TrainingStep> PrepareTraining(const TrainingCase& training);

// What a peer is given: the batch, and the weights in the order in which the model made them. The
// file goes with the object.
class CaseFile {
 public:
  static absl::StatusOr<std::unique_ptr<CaseFile>> Write(const TrainingStep& t);
  ~CaseFile();
  CaseFile(const CaseFile&) = delete;
  CaseFile& operator=(const CaseFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit CaseFile(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_TRAINING_H_
