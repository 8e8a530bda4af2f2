// SPDX-License-Identifier: Apache-2.0
#include "train/data/value_streams.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

class Filter final : public RowStream {
 public:
  Filter(std::unique_ptr<RowStream> input, RowPredicate keep)
      : input_(std::move(input)), keep_(std::move(keep)) {}

  absl::Status Start(int64_t epoch) override { return input_->Start(epoch); }
  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    while (true) {
      MF_ASSIGN_OR_RETURN(const bool more, input_->Next(rows));
      if (!more) return false;
      const absl::StatusOr<bool> keep = keep_(*rows->back().value);
      if (!keep.ok()) {
        return Annotate(keep.status(), absl::StrCat("Filter() of row ", rows->back().id.row));
      }
      if (*keep) return true;
      rows->pop_back();
    }
  }
  absl::StatusOr<int64_t> Skip(int64_t count) override { return SkipByReading(*this, count); }

 private:
  const std::unique_ptr<RowStream> input_;
  const RowPredicate keep_;
};

class Window final : public RowStream {
 public:
  Window(std::unique_ptr<RowStream> input, const WindowRange& range)
      : input_(std::move(input)), range_(range) {}

  absl::Status Start(int64_t epoch) override {
    epoch_ = epoch;
    next_ = 0;
    to_skip_ = 0;
    rows_.clear();
    return input_->Start(epoch);
  }
  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    MF_RETURN_IF_ERROR(input_->Skip(std::exchange(to_skip_, 0)).status());
    while (std::ssize(rows_) < range_.span()) {
      std::vector<RowRef> element;
      MF_ASSIGN_OR_RETURN(const bool more, input_->Next(&element));
      if (!more) return false;
      rows_.push_back(std::move(element[0]));
    }
    std::vector<Row> window;
    for (int64_t i = 0; i < range_.size; ++i) window.push_back(*rows_[i * range_.stride].value);
    MF_ASSIGN_OR_RETURN(Row stacked, StackRows(window));
    rows->push_back(NewRow(epoch_, next_++, std::move(stacked)));
    const int64_t gone = std::min<int64_t>(range_.shift, std::ssize(rows_));
    rows_.erase(rows_.begin(), rows_.begin() + gone);
    to_skip_ = range_.shift - gone;
    return true;
  }
  absl::StatusOr<int64_t> Skip(int64_t count) override { return SkipByReading(*this, count); }

 private:
  const std::unique_ptr<RowStream> input_;
  const WindowRange range_;
  std::deque<RowRef> rows_;  // the rows read so far; the first is the first row of the next window
  int64_t to_skip_ = 0;      // how many rows to skip before the first row of the next window
  int64_t epoch_ = 0;
  int64_t next_ = 0;
};

class Zip final : public RowStream {
 public:
  explicit Zip(std::vector<std::unique_ptr<RowStream>> inputs) : inputs_(std::move(inputs)) {}

  absl::Status Start(int64_t epoch) override {
    epoch_ = epoch;
    next_ = 0;
    for (const auto& input : inputs_) MF_RETURN_IF_ERROR(input->Start(epoch));
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    Row row;
    for (const auto& input : inputs_) {
      parts_.clear();
      MF_ASSIGN_OR_RETURN(const bool more, input->Next(&parts_));
      if (!more) return false;
      row.insert(row.end(), parts_[0].value->begin(), parts_[0].value->end());
    }
    rows->push_back(NewRow(epoch_, next_++, std::move(row)));
    return true;
  }
  absl::StatusOr<int64_t> Skip(int64_t count) override {
    for (const auto& input : inputs_) {
      MF_ASSIGN_OR_RETURN(const int64_t skipped, input->Skip(count));
      count = std::min(count, skipped);
    }
    next_ += count;
    return count;
  }

 private:
  const std::vector<std::unique_ptr<RowStream>> inputs_;
  std::vector<RowRef> parts_;
  int64_t epoch_ = 0;
  int64_t next_ = 0;
};

class Concatenate final : public RowStream {
 public:
  explicit Concatenate(std::vector<std::unique_ptr<RowStream>> inputs)
      : inputs_(std::move(inputs)) {}

  absl::Status Start(int64_t epoch) override {
    epoch_ = epoch;
    next_ = 0;
    current_ = 0;
    return inputs_[0]->Start(epoch);
  }
  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    while (true) {
      MF_ASSIGN_OR_RETURN(const bool more, inputs_[current_]->Next(rows));
      if (more) break;
      if (current_ + 1 == inputs_.size()) return false;
      MF_RETURN_IF_ERROR(inputs_[++current_]->Start(epoch_));
    }
    rows->back().id = {epoch_, next_++};
    return true;
  }
  absl::StatusOr<int64_t> Skip(int64_t count) override {
    int64_t skipped = 0;
    while (true) {
      MF_ASSIGN_OR_RETURN(const int64_t of_input, inputs_[current_]->Skip(count - skipped));
      skipped += of_input;
      if (skipped == count || current_ + 1 == inputs_.size()) break;
      MF_RETURN_IF_ERROR(inputs_[++current_]->Start(epoch_));
    }
    next_ += skipped;
    return skipped;
  }

 private:
  const std::vector<std::unique_ptr<RowStream>> inputs_;
  size_t current_ = 0;
  int64_t epoch_ = 0;
  int64_t next_ = 0;
};

class Interleave final : public RowStream {
 public:
  Interleave(std::unique_ptr<RowStream> input, OpenRows open, int64_t cycle_length,
             int64_t block_length)
      : input_(std::move(input)),
        open_(std::move(open)),
        cycle_(cycle_length),
        block_length_(block_length) {}

  absl::Status Start(int64_t epoch) override {
    epoch_ = epoch;
    next_ = 0;
    turn_ = 0;
    of_block_ = 0;
    at_end_ = false;
    for (auto& stream : cycle_) stream = nullptr;
    return input_->Start(epoch);
  }
  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    for (size_t idle = 0; idle < cycle_.size();) {
      std::unique_ptr<RowStream>& stream = cycle_[turn_];
      if (stream == nullptr) MF_RETURN_IF_ERROR(OpenNext(&stream));
      if (stream == nullptr) {
        ++idle;
        EndBlock();
        continue;
      }
      idle = 0;
      MF_ASSIGN_OR_RETURN(const bool more, stream->Next(rows));
      if (!more) {
        stream = nullptr;  // the next stream is opened at this slot's next turn
        EndBlock();
        continue;
      }
      rows->back().id = {epoch_, next_++};
      if (++of_block_ == block_length_) EndBlock();
      return true;
    }
    return false;
  }
  absl::StatusOr<int64_t> Skip(int64_t count) override { return SkipByReading(*this, count); }

 private:
  void EndBlock() {
    of_block_ = 0;
    turn_ = (turn_ + 1) % cycle_.size();
  }

  absl::Status OpenNext(std::unique_ptr<RowStream>* stream) {
    if (at_end_) return absl::OkStatus();
    std::vector<RowRef> element;
    MF_ASSIGN_OR_RETURN(const bool more, input_->Next(&element));
    at_end_ = !more;
    if (at_end_) return absl::OkStatus();
    MF_ASSIGN_OR_RETURN(*stream, open_(*element[0].value));
    return (*stream)->Start(epoch_);
  }

  const std::unique_ptr<RowStream> input_;
  const OpenRows open_;
  std::vector<std::unique_ptr<RowStream>> cycle_;  // null: not open
  const int64_t block_length_;
  size_t turn_ = 0;
  int64_t of_block_ = 0;
  bool at_end_ = false;  // input_ has ended
  int64_t epoch_ = 0;
  int64_t next_ = 0;
};

// The rows of a complete pass, which the streams of a transform share.
class RowCache {
 public:
  // Returns the rows of a complete pass, or null before the first complete pass.
  std::shared_ptr<const std::vector<RowRef>> rows() const {
    MutexLock lock(&mu_);
    return rows_;
  }
  void Keep(std::vector<RowRef> rows) {
    MutexLock lock(&mu_);
    if (rows_ == nullptr) rows_ = std::make_shared<const std::vector<RowRef>>(std::move(rows));
  }

 private:
  mutable Mutex mu_;
  std::shared_ptr<const std::vector<RowRef>> rows_ ABSL_GUARDED_BY(mu_);
};

class Cached final : public RowStream {
 public:
  Cached(std::unique_ptr<RowStream> input, std::shared_ptr<RowCache> cache)
      : input_(std::move(input)), cache_(std::move(cache)) {}

  absl::Status Start(int64_t epoch) override {
    epoch_ = epoch;
    next_ = 0;
    recorded_.clear();
    kept_ = cache_->rows();
    return kept_ != nullptr ? absl::OkStatus() : input_->Start(epoch);
  }
  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    if (kept_ != nullptr) {
      if (next_ == std::ssize(*kept_)) return false;
      rows->push_back((*kept_)[next_++]);
      rows->back().id.epoch = epoch_;
      return true;
    }
    MF_ASSIGN_OR_RETURN(const bool more, input_->Next(rows));
    if (more) {
      recorded_.push_back(rows->back());
    } else {
      cache_->Keep(std::exchange(recorded_, {}));
      kept_ = cache_->rows();
      next_ = std::ssize(*kept_);
    }
    return more;
  }
  absl::StatusOr<int64_t> Skip(int64_t count) override {
    if (kept_ != nullptr) {
      count = std::min(count, std::ssize(*kept_) - next_);
      next_ += count;
      return count;
    }
    // Read the skipped rows, because only a pass that reads every row can be cached.
    return SkipByReading(*this, count);
  }

 private:
  const std::unique_ptr<RowStream> input_;
  const std::shared_ptr<RowCache> cache_;
  std::shared_ptr<const std::vector<RowRef>> kept_;
  std::vector<RowRef> recorded_;
  int64_t epoch_ = 0;
  int64_t next_ = 0;
};

}  // namespace

RowTransform FilterRows(RowPredicate keep) { return TransformOf<Filter>(std::move(keep)); }

RowTransform WindowRows(const WindowRange& range) { return TransformOf<Window>(range); }

RowTransform CacheRows() { return TransformOf<Cached>(std::make_shared<RowCache>()); }

std::unique_ptr<RowStream> ZipRows(std::vector<std::unique_ptr<RowStream>> inputs) {
  return std::make_unique<Zip>(std::move(inputs));
}

std::unique_ptr<RowStream> ConcatenateRows(std::vector<std::unique_ptr<RowStream>> inputs) {
  return std::make_unique<Concatenate>(std::move(inputs));
}

RowTransform InterleaveRows(OpenRows open, int64_t cycle_length, int64_t block_length) {
  return TransformOf<Interleave>(std::move(open), cycle_length, block_length);
}

}  // namespace mirrorflow
