// SPDX-License-Identifier: Apache-2.0
#include "train/data/row_stream.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "framework/core/status.h"
#include "train/data/split_mix.h"

namespace mirrorflow {
namespace {

class All final : public RowStream {
 public:
  explicit All(int64_t count) : count_(count) {}

  absl::Status Start(int64_t epoch) override {
    epoch_ = epoch;
    next_ = 0;
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    if (next_ == count_) return false;
    rows->push_back({{epoch_, next_++}, nullptr});
    return true;
  }
  absl::StatusOr<int64_t> Skip(int64_t count) override {
    const int64_t skipped = std::min(count, count_ - next_);
    next_ += skipped;
    return skipped;
  }

 private:
  const int64_t count_;
  int64_t epoch_ = 0;
  int64_t next_ = 0;
};

class Shuffle final : public RowStream {
 public:
  Shuffle(std::unique_ptr<RowStream> input, uint64_t seed)
      : input_(std::move(input)), seed_(seed) {}

  absl::Status Start(int64_t epoch) override {
    next_ = 0;
    if (drained_ && epoch == epoch_) return absl::OkStatus();  // the order is already known
    epoch_ = epoch;
    drained_ = false;
    return input_->Start(epoch);
  }

  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    if (!drained_) MF_RETURN_IF_ERROR(DrainAndPermute());
    if (next_ == order_.size()) return false;
    const size_t element = order_[next_++];
    const auto at = [this](size_t i) { return rows_.begin() + static_cast<std::ptrdiff_t>(i); };
    rows->insert(rows->end(), at(begins_[element]), at(begins_[element + 1]));
    return true;
  }

  absl::StatusOr<int64_t> Skip(int64_t count) override {
    if (!drained_) MF_RETURN_IF_ERROR(DrainAndPermute());
    const int64_t skipped = std::min(count, static_cast<int64_t>(order_.size() - next_));
    next_ += skipped;
    return skipped;
  }

 private:
  absl::Status DrainAndPermute() {
    rows_.clear();
    begins_.assign(1, 0);
    while (true) {
      MF_ASSIGN_OR_RETURN(const bool more, input_->Next(&rows_));
      if (!more) break;
      begins_.push_back(rows_.size());
    }
    order_.resize(begins_.size() - 1);
    std::iota(order_.begin(), order_.end(), 0);
    SplitMix64 random(seed_, epoch_);
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.Below(i)]);
    drained_ = true;
    return absl::OkStatus();
  }

  const std::unique_ptr<RowStream> input_;
  const uint64_t seed_;
  int64_t epoch_ = 0;
  bool drained_ = false;
  std::vector<RowRef> rows_;    // the rows of all elements, concatenated
  std::vector<size_t> begins_;  // element i is rows_[begins_[i], begins_[i + 1])
  std::vector<size_t> order_;
  size_t next_ = 0;
};

class Batch final : public RowStream {
 public:
  Batch(std::unique_ptr<RowStream> input, int64_t size, bool drop_remainder)
      : input_(std::move(input)), size_(size), drop_remainder_(drop_remainder) {}

  absl::Status Start(int64_t epoch) override { return input_->Start(epoch); }
  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    const size_t begin = rows->size();
    int64_t n = 0;
    for (; n < size_; ++n) {
      MF_ASSIGN_OR_RETURN(const bool more, input_->Next(rows));
      if (!more) break;
    }
    if (n == size_ || (n > 0 && !drop_remainder_)) return true;
    rows->resize(begin);
    return false;
  }
  absl::StatusOr<int64_t> Skip(int64_t count) override {
    const int64_t most = std::numeric_limits<int64_t>::max() / size_;
    MF_ASSIGN_OR_RETURN(const int64_t skipped, input_->Skip(std::min(count, most) * size_));
    return skipped / size_ + (skipped % size_ != 0 && !drop_remainder_ ? 1 : 0);
  }

 private:
  const std::unique_ptr<RowStream> input_;
  const int64_t size_;
  const bool drop_remainder_;
};

class Repeat final : public RowStream {
 public:
  Repeat(std::unique_ptr<RowStream> input, int64_t count)
      : input_(std::move(input)), count_(count) {}

  absl::Status Start(int64_t epoch) override {
    // Use unsigned arithmetic, so that a count near the limit wraps around instead of overflowing.
    first_epoch_ = static_cast<uint64_t>(epoch) * (count_ < 0 ? 1 : count_);
    pass_ = 0;
    return StartPass();
  }

  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    if (pass_ == count_) return false;
    MF_ASSIGN_OR_RETURN(const bool more, input_->Next(rows));
    if (more) return true;
    if (++pass_ == count_) return false;
    MF_RETURN_IF_ERROR(StartPass());
    // If this pass is empty, all later passes are also empty.
    return input_->Next(rows);
  }

  absl::StatusOr<int64_t> Skip(int64_t count) override {
    int64_t skipped = 0;
    bool is_at_start = false;
    while (skipped < count && pass_ != count_) {
      MF_ASSIGN_OR_RETURN(const int64_t of_pass, input_->Skip(count - skipped));
      skipped += of_pass;
      const bool is_empty = is_at_start && of_pass == 0;  // all later passes are also empty
      if (skipped == count || is_empty || ++pass_ == count_) break;
      MF_RETURN_IF_ERROR(StartPass());
      is_at_start = true;
    }
    return skipped;
  }

 private:
  absl::Status StartPass() { return input_->Start(static_cast<int64_t>(first_epoch_ + pass_)); }

  const std::unique_ptr<RowStream> input_;
  const int64_t count_;
  uint64_t first_epoch_ = 0;
  int64_t pass_ = 0;
};

class Take final : public RowStream {
 public:
  Take(std::unique_ptr<RowStream> input, int64_t count) : input_(std::move(input)), count_(count) {}

  absl::Status Start(int64_t epoch) override {
    taken_ = 0;
    return input_->Start(epoch);
  }
  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    if (taken_ == count_) return false;
    MF_ASSIGN_OR_RETURN(const bool more, input_->Next(rows));
    taken_ += more;
    return more;
  }
  absl::StatusOr<int64_t> Skip(int64_t count) override {
    MF_ASSIGN_OR_RETURN(const int64_t skipped, input_->Skip(std::min(count, count_ - taken_)));
    taken_ += skipped;
    return skipped;
  }

 private:
  const std::unique_ptr<RowStream> input_;
  const int64_t count_;
  int64_t taken_ = 0;
};

class SkipFirst final : public RowStream {
 public:
  SkipFirst(std::unique_ptr<RowStream> input, int64_t count)
      : input_(std::move(input)), count_(count) {}

  absl::Status Start(int64_t epoch) override {
    left_ = count_;
    return input_->Start(epoch);
  }
  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    MF_RETURN_IF_ERROR(SkipLeft());
    return input_->Next(rows);
  }
  absl::StatusOr<int64_t> Skip(int64_t count) override {
    MF_RETURN_IF_ERROR(SkipLeft());
    return input_->Skip(count);
  }

 private:
  absl::Status SkipLeft() {
    return left_ > 0 ? input_->Skip(std::exchange(left_, 0)).status() : absl::OkStatus();
  }

  const std::unique_ptr<RowStream> input_;
  const int64_t count_;
  int64_t left_ = 0;  // how many to skip before the next element
};

class Shard final : public RowStream {
 public:
  Shard(std::unique_ptr<RowStream> input, int64_t num_shards, int64_t index)
      : input_(std::move(input)), num_shards_(num_shards), index_(index) {}

  absl::Status Start(int64_t epoch) override {
    before_ = index_;
    return input_->Start(epoch);
  }
  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    MF_ASSIGN_OR_RETURN(const int64_t skipped, input_->Skip(before_));
    if (skipped < std::exchange(before_, num_shards_ - 1)) return false;
    return input_->Next(rows);
  }
  absl::StatusOr<int64_t> Skip(int64_t count) override {
    int64_t done = 0;
    for (; done < count; ++done) {
      // Other shards' elements precede each element of this shard.
      MF_ASSIGN_OR_RETURN(const int64_t skipped, input_->Skip(before_ + 1));
      if (skipped < before_ + 1) break;
      before_ = num_shards_ - 1;
    }
    return done;
  }

 private:
  const std::unique_ptr<RowStream> input_;
  const int64_t num_shards_;
  const int64_t index_;
  int64_t before_ = 0;  // how many elements of other shards precede the next element
};

class BufferShuffle final : public RowStream {
 public:
  BufferShuffle(std::unique_ptr<RowStream> input, uint64_t seed, int64_t size)
      : input_(std::move(input)), seed_(seed), size_(size), random_(0) {}

  absl::Status Start(int64_t epoch) override {
    random_ = SplitMix64(seed_, epoch);
    buffer_.clear();
    at_end_ = false;
    return input_->Start(epoch);
  }
  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    while (!at_end_ && std::ssize(buffer_) < size_) {
      std::vector<RowRef> element;
      MF_ASSIGN_OR_RETURN(const bool more, input_->Next(&element));
      if (more) buffer_.push_back(std::move(element));
      at_end_ = !more;
    }
    if (buffer_.empty()) return false;
    std::swap(buffer_[random_.Below(buffer_.size())], buffer_.back());
    std::move(buffer_.back().begin(), buffer_.back().end(), std::back_inserter(*rows));
    buffer_.pop_back();
    return true;
  }
  // Draws the skipped elements, because the order of later elements depends on them.
  absl::StatusOr<int64_t> Skip(int64_t count) override { return SkipByReading(*this, count); }

 private:
  const std::unique_ptr<RowStream> input_;
  const uint64_t seed_;
  const int64_t size_;
  SplitMix64 random_;
  std::vector<std::vector<RowRef>> buffer_;
  bool at_end_ = false;
};

}  // namespace

absl::StatusOr<int64_t> SkipByReading(RowStream& stream, int64_t count) {
  int64_t skipped = 0;
  for (std::vector<RowRef> rows; skipped < count; ++skipped, rows.clear()) {
    MF_ASSIGN_OR_RETURN(const bool more, stream.Next(&rows));
    if (!more) break;
  }
  return skipped;
}

std::unique_ptr<RowStream> AllRows(int64_t count) { return std::make_unique<All>(count); }

RowTransform ShuffleRows(uint64_t seed) { return TransformOf<Shuffle>(seed); }

RowTransform BatchRows(int64_t size, bool drop_remainder) {
  return TransformOf<Batch>(size, drop_remainder);
}

RowTransform RepeatRows(int64_t count) { return TransformOf<Repeat>(count); }

RowTransform TakeRows(int64_t count) { return TransformOf<Take>(count); }

RowTransform SkipRows(int64_t count) { return TransformOf<SkipFirst>(count); }

RowTransform ShardRows(int64_t num_shards, int64_t index) {
  return TransformOf<Shard>(num_shards, index);
}

RowTransform ShuffleInBuffer(uint64_t seed, int64_t size) {
  return TransformOf<BufferShuffle>(seed, size);
}

}  // namespace mirrorflow
