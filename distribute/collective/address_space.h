// SPDX-License-Identifier: Apache-2.0
//
// AddressSpace: the memory that the members of a team share. A Position identifies an address in it
// and has the same value in every process. The threads of one process share all its memory.
// Processes share segments, which each process maps at different addresses.
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
  // A segment index (16 bits) and an offset (48 bits), packed into one word. Position 0 is the null
  // pointer.
  enum class Position : uint64_t { kNull = 0, kPrivate = ~uint64_t{0} };

  struct Segment {
    std::byte* base = nullptr;  // in this process
    uint64_t bytes = 0;
  };

  // `segments[0]` represents the addresses outside all other segments. For a single process, it
  // covers every address; otherwise it is empty, so these addresses are private.
  explicit AddressSpace(std::vector<Segment> segments) : segments_(std::move(segments)) {}
  virtual ~AddressSpace() = default;

  // Returns the address space of a single process, where a position is an address.
  static std::shared_ptr<AddressSpace> OfThisProcess();

  // Returns kPrivate if other processes cannot access the address.
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
    // Use integer arithmetic, because a base can be null.
    const auto base = reinterpret_cast<uint64_t>(segments_[value >> kOffsetBits].base);
    return reinterpret_cast<std::byte*>(base + (value & kMaxOffset));
  }

  // Allocates zeroed memory that all members can access.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) = 0;

  // Return the number of processes, the index of this process, and whether a process is still
  // running.
  virtual int num_processes() const { return 1; }
  virtual int process() const { return 0; }
  virtual bool IsAlive(int /*process*/) const { return true; }

 protected:
  static constexpr int kOffsetBits = 48;
  static constexpr uint64_t kMaxOffset = (uint64_t{1} << kOffsetBits) - 1;

 private:
  const std::vector<Segment> segments_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_ADDRESS_SPACE_H_
