// SPDX-License-Identifier: Apache-2.0
//
// The training steps that `mirrorflow bench` measures: a model, an optimizer, and a random batch
// that is in memory before the step.
#ifndef MIRRORFLOW_TOOLS_BENCH_TRAINING_CASE_H_
#define MIRRORFLOW_TOOLS_BENCH_TRAINING_CASE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "distribute/cluster/join_options.h"
#include "mirrorflow_debug.h"
#include "tools/bench/temporary_directory.h"

namespace mirrorflow {

inline constexpr double kBenchLearningRate = 0.01;  // the peers use the same rate

// Steps between the checkpoints of a case that saves them.
inline constexpr int64_t kStepsBetweenSaves = 20;

// The model to train and the way to train it.
struct TrainingCase {
  std::string model;
  int64_t batch_size = 64;  // per replica
  int replicas = 1;         // per worker
  int threads_per_replica = 1;
  std::vector<std::string> without = {};  // compiler passes to skip
  std::string optimizer = "sgd";
  std::string hook = "none";  // how the gradients are reduced
  int workers = 1;
  // Options for training in separate processes:
  std::string trace = {};  // file for a trace of some steps of all workers
  CollectiveKind collective = CollectiveKind::kAuto;
  std::string checkpoint_dir = {};  // empty for no checkpoints
  absl::Duration heartbeat_timeout = absl::Seconds(10);

  int num_replicas() const { return workers * replicas; }
};

struct TrainingGraph {
  Graph graph;
  Output inputs;
  Output labels;
  Output loss;
  Output logits;                   // for inference; none for `chain`
  std::vector<Operation> targets;  // the train op; none for `chain`
  int64_t classes = 10;            // number of labels, and of tokens if the inputs are tokens
};

// A step that is ready to run, with the objects that it needs.
struct ReadyStep {
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Session> session;
  Step step;
  std::vector<Tensor> feeds;
};

// Builds the training graph of `model`, one of
//   mlp, cnn, resnet  the models of BuildClassifier
//   big               1024-2048-2048-10 with ReLU
//   lstm              a classifier of sequences, in about 2,000 small ops
//   transformer       a language model of width 256, in 4 blocks
//   gpt2              GPT-2 with 124M parameters
//   resnet50          ResNet-50 for 224×224 pixels and 1,000 classes
//   resnet50_64       the same for 64×64 pixels
//   chain             1,000 sines of a number, without a train op
// If `optimizer` is empty, uses the model's default. `hook` is none, bf16, fp16, powersgd (rank 4,
// starting at the first step) or adasum. Returns InvalidArgument for an unknown model, optimizer or
// hook.
absl::StatusOr<TrainingGraph> BuildTraining(const Strategy& strategy, absl::string_view model,
                                            absl::string_view optimizer = "",
                                            absl::string_view hook = "none");

// Returns InvalidArgument, naming the flag, unless BuildTraining supports the arguments.
absl::Status CheckTraining(const Strategy& strategy, absl::string_view model,
                           absl::string_view optimizer, absl::string_view hook);

// Returns pseudo-random floats in [0, 1), equal in every run. For other dtypes, returns zeros,
// which are valid labels and indices everywhere.
absl::StatusOr<Tensor> NoiseOf(DataType dtype, const Shape& shape);

// Returns inputs, which are random numbers or tokens, and valid labels.
absl::StatusOr<std::vector<Tensor>> NoiseBatch(const TrainingGraph& training, int64_t rows);

// Prepares the step in one process, with the replicas of all workers. Feeds are the inputs and
// labels of the global batch.
absl::StatusOr<ReadyStep> PrepareTraining(const TrainingCase& training);
// Prepares the step as a worker of the cluster, which may have only one worker.
absl::StatusOr<ReadyStep> PrepareTraining(const TrainingCase& training, const Cluster& cluster);
// Prepares the step with a strategy that the step does not own and that must outlive it.
absl::StatusOr<ReadyStep> PrepareTraining(const TrainingCase& training, const Strategy& strategy);

// Prepares a serving step with OneDeviceStrategy on CPU:0. The step takes an example and returns
// its logits, [1, classes]. The feeds are one example and its label, for CaseFile. Returns
// InvalidArgument for a model without logits.
absl::StatusOr<ReadyStep> PrepareServing(absl::string_view model);

// The file that a peer reads. The destructor removes it.
class CaseFile {
 public:
  static absl::StatusOr<std::unique_ptr<CaseFile>> Write(
      const std::map<std::string, Tensor>& arrays);
  // Writes a training case: `batch`, which holds the inputs and the labels, and the weights in the
  // order of their creation.
  static absl::StatusOr<std::unique_ptr<CaseFile>> Write(Session& session,
                                                         absl::Span<const Tensor> batch);
  CaseFile(const CaseFile&) = delete;
  CaseFile& operator=(const CaseFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  CaseFile() = default;
  const TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/case.npz";
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_TRAINING_CASE_H_
