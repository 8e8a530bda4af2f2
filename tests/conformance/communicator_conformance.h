// SPDX-License-Identifier: Apache-2.0
//
// Test suites that every Communicator must pass. The ranks are threads of the test.
//
// A backend's test instantiates the suites with its factory, as in team_communicator_test.cc:
//   CommunicatorConformance  results: every kind, count, dtype, reduction and order
//   CommunicatorFailures     errors: every rank returns the same first error, in time
//   CommunicatorAborts       errors from Abort, also returned by every rank
// The suites assume only what communicator.h promises, except that sums are computed in rank order
// if `sums_in_rank_order` is set.
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
  // Connects the ranks of a new group. Their waits time out after `timeout`.
  std::function<absl::StatusOr<Communicators>(int world_size, absl::Duration timeout)> connect;
  int world_size;
  bool sums_in_rank_order = true;
};
void PrintTo(const ConformanceCase& test_case, std::ostream* os);
// Returns a name such as `Backend_8`.
std::string ConformanceCaseName(const testing::TestParamInfo<ConformanceCase>& info);

// Returns a case for each world size of a suite. The failure suites need at least two ranks.
std::vector<ConformanceCase> AtEveryWorldSize(ConformanceCase backend);
std::vector<ConformanceCase> AtEveryWorldSizeAboveOne(ConformanceCase backend);

class CommunicatorConformance : public testing::TestWithParam<ConformanceCase> {
 protected:
  // Longer than any test takes, so a wait times out only if a failure is not propagated.
  static constexpr absl::Duration kPatient = absl::Seconds(50);

  void SetUp() override { Connect(kPatient); }
  void Connect(absl::Duration timeout);

  int world_size() const { return GetParam().world_size; }
  Communicator& communicator(int rank) { return *communicators_[rank]; }

  // Runs `body` concurrently on one thread per rank and returns its results by rank.
  std::vector<absl::Status> OnEachRank(const std::function<absl::Status(Communicator&)>& body);
  // Like OnEachRank, but expects every rank to succeed.
  void OnEachRankOk(const std::function<absl::Status(Communicator&)>& body);

 private:
  Communicators communicators_;
};

class CommunicatorFailures : public CommunicatorConformance {};
// Failures from Abort. This is a separate suite because not every backend can detect differences
// between ranks.
class CommunicatorAborts : public CommunicatorFailures {};

// The elements of one rank, followed by a guard that reveals writes past the end.
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

// Checks that `got` has the same bits as `want`, guards included.
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
  return testing::AssertionFailure() << "written past the last of " << want.size() << " elements";
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_CONFORMANCE_COMMUNICATOR_CONFORMANCE_H_
