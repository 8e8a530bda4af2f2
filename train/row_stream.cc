// SPDX-License-Identifier: Apache-2.0
#include "train/row_stream.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace mirrorflow {
namespace {

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). Replaces std::shuffle and the standard
// distributions, whose results differ between libraries: an order must not depend on the compiler.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t state) : state_(state) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  // Uniform in [0, n): the high word of x * n, after rejecting the few x that would bias the
  // result. Source: Lemire, "Fast random integer generation in an interval", 2019.
  uint64_t Below(uint64_t n) {
    const uint64_t rejected_below = -n % n;
    unsigned __int128 product;
    do {
      product = static_cast<unsigned __int128>(Next()) * n;
    } while (static_cast<uint64_t>(product) < rejected_below);
    return static_cast<uint64_t>(product >> 64);
  }

 private:
  uint64_t state_;
};

class All final : public RowStream {
 public:
  explicit All(int64_t count) : count_(count) {}

  void Start(int64_t) override { next_ = 0; }
  bool Next(std::vector<int64_t>* rows) override {
    if (next_ == count_) return false;
    rows->push_back(next_++);
    return true;
  }
  int64_t Skip(int64_t count) override {
    const int64_t skipped = std::min(count, count_ - next_);
    next_ += skipped;
    return skipped;
  }

 private:
  const int64_t count_;
  int64_t next_ = 0;
};

class Shuffle final : public RowStream {
 public:
  Shuffle(std::unique_ptr<RowStream> input, uint64_t seed)
      : input_(std::move(input)), seed_(seed) {}

  void Start(int64_t epoch) override {
    input_->Start(epoch);
    epoch_ = epoch;
    drained_ = false;
    next_ = 0;
  }

  bool Next(std::vector<int64_t>* rows) override {
    if (!drained_) DrainAndPermute();
    if (next_ == order_.size()) return false;
    const size_t element = order_[next_++];
    rows->insert(rows->end(), rows_.begin() + begins_[element],
                 rows_.begin() + begins_[element + 1]);
    return true;
  }

  int64_t Skip(int64_t count) override {
    if (!drained_) DrainAndPermute();
    const int64_t skipped = std::min(count, static_cast<int64_t>(order_.size() - next_));
    next_ += skipped;
    return skipped;
  }

 private:
  void DrainAndPermute() {
    rows_.clear();
    begins_.assign(1, 0);
    while (input_->Next(&rows_)) begins_.push_back(rows_.size());
    order_.resize(begins_.size() - 1);
    std::iota(order_.begin(), order_.end(), 0);
    // Scramble the seed; otherwise (seed, epoch + 1) would give the order of (seed + 1, epoch).
    SplitMix64 random(SplitMix64(seed_).Next() + static_cast<uint64_t>(epoch_));
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.Below(i)]);
    drained_ = true;
  }

  const std::unique_ptr<RowStream> input_;
  const uint64_t seed_;
  int64_t epoch_ = 0;
  bool drained_ = false;
  std::vector<int64_t> rows_;   // of all elements, concatenated
  std::vector<size_t> begins_;  // element i is rows_[begins_[i], begins_[i + 1])
  std::vector<size_t> order_;
  size_t next_ = 0;
};

class Batch final : public RowStream {
 public:
  Batch(std::unique_ptr<RowStream> input, int64_t size, bool drop_remainder)
      : input_(std::move(input)), size_(size), drop_remainder_(drop_remainder) {}

  void Start(int64_t epoch) override { input_->Start(epoch); }
  bool Next(std::vector<int64_t>* rows) override {
    const size_t begin = rows->size();
    int64_t n = 0;
    while (n < size_ && input_->Next(rows)) ++n;
    if (n == size_ || (n > 0 && !drop_remainder_)) return true;
    rows->resize(begin);
    return false;
  }
  int64_t Skip(int64_t count) override {
    const int64_t most = std::numeric_limits<int64_t>::max() / size_;
    const int64_t skipped = input_->Skip(std::min(count, most) * size_);
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

  void Start(int64_t epoch) override {
    // Unsigned, so that a count near the limit wraps around instead of overflowing.
    first_epoch_ = static_cast<uint64_t>(epoch) * (count_ < 0 ? 1 : count_);
    pass_ = 0;
    input_->Start(first_epoch_);
  }

  bool Next(std::vector<int64_t>* rows) override {
    if (pass_ == count_) return false;
    if (input_->Next(rows)) return true;
    if (++pass_ == count_) return false;
    input_->Start(first_epoch_ + pass_);
    // If this pass is empty, so are all later ones.
    return input_->Next(rows);
  }

  int64_t Skip(int64_t count) override {
    int64_t skipped = 0;
    bool is_at_start = false;
    while (skipped < count && pass_ != count_) {
      const int64_t of_pass = input_->Skip(count - skipped);
      skipped += of_pass;
      const bool is_empty = is_at_start && of_pass == 0;  // and so are all later passes
      if (skipped == count || is_empty || ++pass_ == count_) break;
      input_->Start(first_epoch_ + pass_);
      is_at_start = true;
    }
    return skipped;
  }

 private:
  const std::unique_ptr<RowStream> input_;
  const int64_t count_;
  uint64_t first_epoch_ = 0;
  int64_t pass_ = 0;
};

class Take final : public RowStream {
 public:
  Take(std::unique_ptr<RowStream> input, int64_t count) : input_(std::move(input)), count_(count) {}

  void Start(int64_t epoch) override {
    input_->Start(epoch);
    taken_ = 0;
  }
  bool Next(std::vector<int64_t>* rows) override {
    if (taken_ == count_ || !input_->Next(rows)) return false;
    ++taken_;
    return true;
  }
  int64_t Skip(int64_t count) override {
    const int64_t skipped = input_->Skip(std::min(count, count_ - taken_));
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

  void Start(int64_t epoch) override {
    input_->Start(epoch);
    left_ = count_;
  }
  bool Next(std::vector<int64_t>* rows) override {
    SkipLeft();
    return input_->Next(rows);
  }
  int64_t Skip(int64_t count) override {
    SkipLeft();
    return input_->Skip(count);
  }

 private:
  void SkipLeft() {
    if (left_ > 0) input_->Skip(std::exchange(left_, 0));
  }

  const std::unique_ptr<RowStream> input_;
  const int64_t count_;
  int64_t left_ = 0;  // to skip before the next element
};

}  // namespace

std::unique_ptr<RowStream> AllRows(int64_t count) { return std::make_unique<All>(count); }

std::unique_ptr<RowStream> ShuffleRows(std::unique_ptr<RowStream> input, uint64_t seed) {
  return std::make_unique<Shuffle>(std::move(input), seed);
}

std::unique_ptr<RowStream> BatchRows(std::unique_ptr<RowStream> input, int64_t size,
                                     bool drop_remainder) {
  return std::make_unique<Batch>(std::move(input), size, drop_remainder);
}

std::unique_ptr<RowStream> RepeatRows(std::unique_ptr<RowStream> input, int64_t count) {
  return std::make_unique<Repeat>(std::move(input), count);
}

std::unique_ptr<RowStream> TakeRows(std::unique_ptr<RowStream> input, int64_t count) {
  return std::make_unique<Take>(std::move(input), count);
}

std::unique_ptr<RowStream> SkipRows(std::unique_ptr<RowStream> input, int64_t count) {
  return std::make_unique<SkipFirst>(std::move(input), count);
}

}  // namespace mirrorflow
