// SPDX-License-Identifier: Apache-2.0
//
// The tests that every Communicator must pass, on ranks that are threads of the test.
//
// A backend's test names its factory in two lines, one a suite (team_communicator_test.cc shows
// them):
//   CommunicatorConformance  results: every kind, count, dtype and reduction, order
//   CommunicatorFailures     errors: every rank returns the same first one, in time
// Neither assumes more of a backend than communicator.h says, except that sums are made in rank
// order where `sums_in_rank_order` is set.
#ifndef MIRRORFLOW_TESTS_CONFORMANCE_COMMUNICATOR_CONFORMANCE_H_
#define MIRRORFLOW_TESTS_CONFORMANCE_COMMUNICATOR_CONFORMANCE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/runtime/communicator.h"
#include "gtest/gtest.h"

namespace mirrorflow {

using Communicators = std::vector<std::unique_ptr<Communicator>>;

// A backend at one world size.
struct ConformanceCase {
  std::string backend;
  // Connects the ranks of a new group, whose waits give up after `timeout`.
  std::function<absl::StatusOr<Communicators>(int world_size, absl::Duration timeout)> connect;
  int world_size;
  bool sums_in_rank_order = true;
};
void PrintTo(const ConformanceCase& test_case, std::ostream* os);
// `Backend_8`
std::string ConformanceCaseName(const testing::TestParamInfo<ConformanceCase>& info);

// The world sizes of the two suites; it takes two to fail.
std::vector<ConformanceCase> AtEveryWorldSize(ConformanceCase backend);
std::vector<ConformanceCase> AtEveryWorldSizeAboveOne(ConformanceCase backend);

class CommunicatorConformance : public testing::TestWithParam<ConformanceCase> {
 protected:
  // Above what any test takes, so that only a failure that is not passed on shows up as a timeout.
  static constexpr absl::Duration kPatient = absl::Seconds(50);

  void SetUp() override { Connect(kPatient); }
  void Connect(absl::Duration timeout);

  int world_size() const { return GetParam().world_size; }
  Communicator& communicator(int rank) { return *communicators_[rank]; }

  // Runs `body` on a thread for each rank, at the same time; what it returned, by rank.
  std::vector<absl::Status> OnEachRank(const std::function<absl::Status(Communicator&)>& body);
  // The same where no rank may fail.
  void OnEachRankOk(const std::function<absl::Status(Communicator&)>& body);

 private:
  Communicators communicators_;
};

class CommunicatorFailures : public CommunicatorConformance {};
// Of these, those about Abort: what differs between ranks not every backend can see.
class CommunicatorAborts : public CommunicatorFailures {};

// Elements of a rank, with a guard behind them against who writes too much.
template <typename T>
class Memory {
 public:
  explicit Memory(int64_t count)
      : count_(count), bytes_(count * sizeof(T) + kGuard, std::byte{0x5a}) {}
  template <typename Fn>
  Memory(int64_t count, Fn element) : Memory(count) {
    for (int64_t i = 0; i < count; ++i) data()[i] = element(i);
  }

  T* data() { return reinterpret_cast<T*>(bytes_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data()); }
  int64_t size() const { return count_; }
  void Fill(std::byte value) { std::memset(bytes_.data(), static_cast<int>(value), SizeInBytes()); }
  int64_t SizeInBytes() const { return count_ * static_cast<int64_t>(sizeof(T)); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  static constexpr int64_t kGuard = 64;
  int64_t count_;
  std::vector<std::byte> bytes_;
};

// Whether `got` has the bits of `want`, guards included.
template <typename T>
testing::AssertionResult SameBits(const Memory<T>& want, const Memory<T>& got) {
  if (want.bytes() == got.bytes()) return testing::AssertionSuccess();
  for (int64_t i = 0; i < want.size(); ++i) {
    if (std::memcmp(want.data() + i, got.data() + i, sizeof(T)) != 0) {
      return testing::AssertionFailure()
             << "element " << i << " of " << want.size() << ": expected " << +want.data()[i]
             << ", got " << +got.data()[i];
    }
  }
  return testing::AssertionFailure() << "written behind the last of " << want.size();
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_CONFORMANCE_COMMUNICATOR_CONFORMANCE_H_
