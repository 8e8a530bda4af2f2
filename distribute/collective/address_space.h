// SPDX-License-Identifier: Apache-2.0
//
// AddressSpace: the memory that the members of a team share, and names for places in it that are
// the same in every process. The threads of one process share all its memory. Processes share
// segments, which each of them has mapped at addresses of its own.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_ADDRESS_SPACE_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_ADDRESS_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mirrorflow {

class AddressSpace {
 public:
  // (segment, offset) in one word: 16 bits and 48 bits. Position 0 is the null pointer.
  enum class Position : uint64_t { kNull = 0, kPrivate = ~uint64_t{0} };

  struct Segment {
    std::byte* base = nullptr;  // in this process
    uint64_t bytes = 0;
  };

  // `segments[0]` holds the addresses that have no segment; in a single process, all of them.
  explicit AddressSpace(std::vector<Segment> segments) : segments_(std::move(segments)) {}
  virtual ~AddressSpace() = default;

  // Memory of one process: a position is an address.
  static std::shared_ptr<AddressSpace> OfThisProcess();

  // kPrivate if other processes cannot reach the address.
  Position PositionOf(const void* address) const {
    const auto value = reinterpret_cast<uint64_t>(address);
    for (size_t s = 0; s < segments_.size(); ++s) {
      const uint64_t offset = value - reinterpret_cast<uint64_t>(segments_[s].base);
      if (offset < segments_[s].bytes) return static_cast<Position>(s << kOffsetBits | offset);
    }
    return address == nullptr ? Position::kNull : Position::kPrivate;
  }
  std::byte* AddressOf(Position position) const {
    const auto value = static_cast<uint64_t>(position);
    // In integers, because a base may be null.
    const auto base = reinterpret_cast<uint64_t>(segments_[value >> kOffsetBits].base);
    return reinterpret_cast<std::byte*>(base + (value & kMaxOffset));
  }

  // Memory that all members can reach, zeroed.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) = 0;

  // The processes, this one included, and whether one of them still runs.
  virtual int num_processes() const { return 1; }
  virtual int process() const { return 0; }
  virtual bool IsAlive(int process) const {
    static_cast<void>(process);
    return true;
  }

 protected:
  static constexpr int kOffsetBits = 48;
  static constexpr uint64_t kMaxOffset = (uint64_t{1} << kOffsetBits) - 1;

 private:
  const std::vector<Segment> segments_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_ADDRESS_SPACE_H_
