// SPDX-License-Identifier: Apache-2.0
#include "train/data/loaded_rows.h"

#include <cstdio>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/log.h"
#include "framework/core/status.h"
#include "train/data/parallel_rows.h"

namespace mirrorflow {
namespace {

// How many rows per thread are read ahead, so that all threads stay busy if some rows take longer.
constexpr int kRowsAheadPerThread = 8;

class Source final : public RowStream {
 public:
  explicit Source(OpenSource open) : open_(std::move(open)) {}

  absl::Status Start(int64_t epoch) override {
    epoch_ = epoch;
    next_ = 0;
    at_end_ = false;
    source_ = nullptr;
    MF_ASSIGN_OR_RETURN(source_, open_(epoch));
    return source_ != nullptr
               ? absl::OkStatus()
               : absl::InvalidArgumentError("dataset: expected a source for the pass, got null");
  }
  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    if (at_end_) return false;
    Row row;
    absl::StatusOr<bool> more = source_->Next(&row);
    const int64_t number = next_++;  // also counts failed rows, so that other rows keep their index
    if (!more.ok()) return Annotate(more.status(), absl::StrCat("row ", number));
    at_end_ = !*more;
    if (at_end_) return false;
    if (row.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "row ", number,
          ": the source returned a row without components; expected at least one, got none"));
    }
    rows->push_back(NewRow(epoch_, number, std::move(row)));
    return true;
  }
  absl::StatusOr<int64_t> Skip(int64_t count) override {
    if (at_end_) return 0;
    MF_ASSIGN_OR_RETURN(const int64_t skipped, source_->Skip(count));
    next_ += skipped;
    at_end_ = skipped < count;
    return skipped;
  }

 private:
  const OpenSource open_;
  std::unique_ptr<RowSource> source_;
  int64_t epoch_ = 0;
  int64_t next_ = 0;
  bool at_end_ = false;  // do not call Next() after the end: a generator may start over
};

class Loaded final : public RowStream {
 public:
  Loaded(std::unique_ptr<RowStream> input, RowReaderPtr reader, const LoadRowsOptions& options)
      : input_(std::move(input)),
        reader_(std::move(reader)),
        max_errors_(options.max_errors),
        threads_(options.num_threads) {}

  absl::Status Start(int64_t epoch) override {
    ready_.clear();
    errors_ = 0;
    at_end_ = false;
    failure_ = absl::OkStatus();
    return input_->Start(epoch);
  }

  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    while (ready_.empty() && failure_.ok() && !at_end_) failure_ = ReadAhead();
    if (ready_.empty()) {
      if (!failure_.ok()) return failure_;
      return false;
    }
    rows->push_back(std::move(ready_.front()));
    ready_.pop_front();
    return true;
  }

  absl::StatusOr<int64_t> Skip(int64_t count) override {
    int64_t skipped = 0;
    for (; skipped < count && !ready_.empty(); ++skipped) ready_.pop_front();
    if (skipped == count || at_end_) return skipped;
    if (max_errors_ == 0 && failure_.ok()) {
      MF_ASSIGN_OR_RETURN(const int64_t more, input_->Skip(count - skipped));
      return skipped + more;
    }
    // Read the rows, because only reading shows which rows fail.
    MF_ASSIGN_OR_RETURN(const int64_t more, SkipByReading(*this, count - skipped));
    return skipped + more;
  }

 private:
  // Reads rows into ready_. If a row fails, ready_ holds the rows before it.
  absl::Status ReadAhead() {
    const int wanted =
        threads_.num_threads() > 1 ? threads_.num_threads() * kRowsAheadPerThread : 1;
    refs_.clear();
    absl::Status failure;
    while (std::ssize(refs_) < wanted && failure.ok() && !at_end_) {
      const absl::StatusOr<bool> more = input_->Next(&refs_);
      if (more.ok()) {
        at_end_ = !*more;
      } else {
        failure = Tolerate(more.status());
      }
    }
    std::vector<absl::Status> statuses(refs_.size());
    MF_RETURN_IF_ERROR(threads_.Run(std::ssize(refs_), [&](int64_t i) {
      auto row = std::make_shared<Row>();
      statuses[i] = reader_->Read(refs_[i], row.get());
      refs_[i].value = std::move(row);
      return max_errors_ > 0 ? absl::OkStatus() : statuses[i];
    }));
    for (size_t i = 0; i < refs_.size(); ++i) {
      if (statuses[i].ok()) {
        ready_.push_back(std::move(refs_[i]));
      } else {
        MF_RETURN_IF_ERROR(Tolerate(statuses[i]));
      }
    }
    if (at_end_ && errors_ > 0) {
      LogWarning(absl::StrCat("skipped ", errors_, " bad record", errors_ == 1 ? "" : "s"));
    }
    return failure;
  }

  // Counts a bad row. Returns OK if it can be skipped, otherwise its error.
  absl::Status Tolerate(const absl::Status& status) {
    const bool is_bad_row = absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
    if (!is_bad_row || max_errors_ == 0) return status;
    if (++errors_ <= max_errors_) return absl::OkStatus();
    return Annotate(status, absl::StrCat("more than ", max_errors_, " bad records; last error"));
  }

  const std::unique_ptr<RowStream> input_;
  const RowReaderPtr reader_;
  const int64_t max_errors_;
  ParallelRows threads_;
  std::vector<RowRef> refs_;
  std::deque<RowRef> ready_;
  int64_t errors_ = 0;
  bool at_end_ = false;
  absl::Status failure_;
};

}  // namespace

std::unique_ptr<RowStream> SourceRows(OpenSource open) {
  return std::make_unique<Source>(std::move(open));
}

std::unique_ptr<RowStream> LoadRows(std::unique_ptr<RowStream> input, RowReaderPtr reader,
                                    const LoadRowsOptions& options) {
  return std::make_unique<Loaded>(std::move(input), std::move(reader), options);
}

}  // namespace mirrorflow
