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
  std::deque<RowRef> rows_;  // from the first row of the next window
  int64_t to_skip_ = 0;      // rows before the first row of the next window
  int64_t epoch_ = 0;
  int64_t next_ = 0;
};

}  // namespace

class RowCache {
 public:
  // The rows of a complete pass; null before there is one.
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

namespace {

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
    // Only a pass that has read every row can be kept.
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

std::unique_ptr<RowStream> FilterRows(std::unique_ptr<RowStream> input, RowPredicate keep) {
  return std::make_unique<Filter>(std::move(input), std::move(keep));
}

std::unique_ptr<RowStream> WindowRows(std::unique_ptr<RowStream> input, const WindowRange& range) {
  return std::make_unique<Window>(std::move(input), range);
}

std::shared_ptr<RowCache> CreateRowCache() { return std::make_shared<RowCache>(); }

std::unique_ptr<RowStream> CacheRows(std::unique_ptr<RowStream> input,
                                     std::shared_ptr<RowCache> cache) {
  return std::make_unique<Cached>(std::move(input), std::move(cache));
}

}  // namespace mirrorflow
