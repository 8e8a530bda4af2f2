// SPDX-License-Identifier: Apache-2.0
#include "train/data/combined_rows.h"

#include <algorithm>
#include <utility>

#include "framework/core/status.h"

namespace mirrorflow {
namespace {

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
        stream = nullptr;  // the next one takes its place when its turn comes again
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
  bool at_end_ = false;  // of input_
  int64_t epoch_ = 0;
  int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<RowStream> ZipRows(std::vector<std::unique_ptr<RowStream>> inputs) {
  return std::make_unique<Zip>(std::move(inputs));
}

std::unique_ptr<RowStream> ConcatenateRows(std::vector<std::unique_ptr<RowStream>> inputs) {
  return std::make_unique<Concatenate>(std::move(inputs));
}

std::unique_ptr<RowStream> InterleaveRows(std::unique_ptr<RowStream> input, OpenRows open,
                                          int64_t cycle_length, int64_t block_length) {
  return std::make_unique<Interleave>(std::move(input), std::move(open), cycle_length,
                                      block_length);
}

}  // namespace mirrorflow
