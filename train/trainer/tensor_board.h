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

// Errors: Fit returns InvalidArgument if a value is negative.
struct TensorBoardOptions {
  // How many steps apart the loss of a batch is logged. 0: only values per epoch are logged (Keras'
  // "epoch").
  int64_t update_freq = 0;
  // How many epochs apart a histogram of each floating-point variable is written. 0: never.
  int64_t histogram_freq = 0;
};

// Writes the training logs for TensorBoard and `mirrorflow report`, on worker 0, to event files in
// the directory `log_dir`. At each epoch's last step, it writes `loss/train`, `loss/val`, the
// corresponding values of each metric, such as `accuracy/train`, and `examples_per_second`; with
// `update_freq`, it also writes `loss/batch`. When training resumes from a checkpoint, readers
// discard what the previous run wrote after the checkpoint, so each step and epoch appears once.
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
