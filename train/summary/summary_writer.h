// SPDX-License-Identifier: Apache-2.0
//
// SummaryWriter writes data about a run for TensorBoard. Its functions have the names of PyTorch's
// torch.utils.tensorboard.SummaryWriter.
//
//   MF_ASSIGN_OR_RETURN(auto writer, mf::SummaryWriter::Open("logs/run1"));
//   MF_RETURN_IF_ERROR(writer->AddScalar("loss/train", loss, step));
//   MF_RETURN_IF_ERROR(writer->Close());
//
//   tensorboard --logdir logs        # or: mirrorflow report logs/run1
//
// A run is a directory with event files. A tag is the name of a chart; TensorBoard groups tags that
// have the same prefix before a `/`. In a cluster, only one worker should write a run.
//
// Calls compute and encode their event, but do not wait for the disk (event_file_writer.h). After a
// disk error, every call returns that error.
#ifndef MIRRORFLOW_TRAIN_SUMMARY_SUMMARY_WRITER_H_
#define MIRRORFLOW_TRAIN_SUMMARY_SUMMARY_WRITER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"
#include "train/summary/event_file_writer.h"
#include "train/summary/hparams_summary.h"

namespace mirrorflow {

struct AddOptions {
  std::optional<absl::Time> walltime;  // nullopt: now
};

struct AddHistogramOptions {
  int buckets = 30;                    // of equal width, like in tf.summary.histogram
  std::optional<absl::Time> walltime;  // nullopt: now
};

struct AddImageOptions {
  absl::string_view data_format = "HWC";  // the order of the dimensions: HWC, CHW or HW
  std::optional<absl::Time> walltime;     // nullopt: now
};

// Thread-safe. Every function returns InvalidArgument for an empty tag, or if a tag or text is not
// UTF-8, and FailedPrecondition after Close().
class SummaryWriter {
 public:
  // Creates an event file in `log_dir`, which can already hold other event files of the same run.
  static absl::StatusOr<std::unique_ptr<SummaryWriter>> Open(absl::string_view log_dir,
                                                             const EventFileOptions& options = {});

  // Adds a value, which is stored as a float.
  absl::Status AddScalar(absl::string_view tag, double value, int64_t step,
                         const AddOptions& options = {});

  // Adds the distribution of the finite elements of `values`, which must be floating-point, integer
  // or bool. Makes two passes over `values`. Returns InvalidArgument for any other dtype, or if
  // `buckets` is less than 1.
  absl::Status AddHistogram(absl::string_view tag, const Tensor& values, int64_t step,
                            const AddHistogramOptions& options = {});

  // Adds an image: uint8, or floating-point in [0, 1] (values outside are clipped), with 1 to 4
  // channels (grey, grey and alpha, RGB, RGBA). Returns InvalidArgument for any other image.
  absl::Status AddImage(absl::string_view tag, const Tensor& image, int64_t step,
                        const AddImageOptions& options = {});

  // Adds a text, which TensorBoard renders as Markdown.
  absl::Status AddText(absl::string_view tag, absl::string_view text, int64_t step,
                       const AddOptions& options = {});

  // Adds the graph's nodes and edges. Returns the first error that occurred while the graph was
  // built.
  absl::Status AddGraph(const Graph& graph, const AddOptions& options = {});

  // Adds the run's hyperparameters and final metrics, which TensorBoard compares with those of
  // other runs in the same directory. Also adds the metrics as scalars. Call it once, at the end of
  // the run; a second call returns FailedPrecondition.
  //   writer->AddHparams({{"batch", 64}, {"lr", 0.1}, {"optimizer", "adam"}}, {{"accuracy", 0.9}});
  absl::Status AddHparams(const Hparams& hparams, const HparamMetrics& metrics, int64_t step = 0,
                          const AddOptions& options = {});

  // Blocks until everything added so far is in the file.
  absl::Status Flush() { return file_->Flush(); }
  // Writes everything and closes the file, as the destructor does. Returns OK if the file contains
  // everything.
  absl::Status Close() { return file_->Close(); }

  const std::string& path() const { return file_->path(); }
  EventFileWriter& event_file() { return *file_; }

 private:
  explicit SummaryWriter(std::unique_ptr<EventFileWriter> file);
  absl::Status AddSummary(const proto::Summary& summary, int64_t step,
                          const std::optional<absl::Time>& walltime);

  const std::unique_ptr<EventFileWriter> file_;
  const absl::Time start_;
  std::atomic<bool> has_hparams_{false};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SUMMARY_SUMMARY_WRITER_H_
