// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_TRAINER_TENSOR_BOARD_H_
#define MIRRORFLOW_TRAIN_TRAINER_TENSOR_BOARD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "train/summary/summary_writer.h"
#include "train/trainer/callback.h"

namespace mirrorflow {

// Fit returns InvalidArgument if a value is negative.
struct TensorBoardOptions {
  // Steps between two logged batch losses. 0 logs only per-epoch values (Keras' "epoch").
  int64_t update_freq = 0;
  // Epochs between two histograms of each floating-point variable. 0 writes no histograms.
  int64_t histogram_freq = 0;
};

// Writes the training logs for TensorBoard and `mirrorflow report`, on worker 0. At each epoch's
// last step, it writes `loss/train`, `loss/val`, the corresponding values of each metric, and
// `examples_per_second`; with `update_freq`, it also writes `loss/batch`. When training resumes
// from a checkpoint, readers discard what the previous run wrote after the checkpoint, so each step
// and epoch appears once.
class TensorBoard final : public Callback {
 public:
  explicit TensorBoard(std::string log_dir, const TensorBoardOptions& options = {});
  absl::Status OnTrainBegin(TrainingState& state) override;
  absl::Status OnEpochBegin(TrainingState& state) override;
  absl::Status OnStep(TrainingState& state) override;
  absl::Status OnEpochEnd(TrainingState& state) override;
  absl::Status OnTrainEnd(TrainingState& state) override;
  void OnException(TrainingState& state, const absl::Status& why) override;
  // Waits until the events are in the file, because a resumed run does not repeat them.
  absl::Status SaveState(TrainingState& state, StateDict& saved) const override;
  absl::Status LoadState(TrainingState& state, const StateDict& saved) override;
  std::string state_key() const override;

  // Returns a writer for the program's own values, during training. Returns null on all workers
  // except worker 0.
  SummaryWriter* writer() { return writer_.get(); }

 private:
  absl::Status AddHistograms(TrainingState& state);

  const std::string log_dir_;
  const TensorBoardOptions options_;
  std::unique_ptr<SummaryWriter> writer_;
  MonotonicTime epoch_began_;
  int64_t epoch_rows_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_TENSOR_BOARD_H_
