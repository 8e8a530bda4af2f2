// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/memory_domains.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "framework/core/monotonic_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/cluster/memory_worker_group.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

// Forms the memory domains of workers on `hosts`, with one thread per worker.
std::vector<absl::StatusOr<MemoryDomains>> Form(const std::vector<std::string>& hosts,
                                                CollectiveKind kind) {
  const auto groups = CreateMemoryWorkerGroups(static_cast<int>(hosts.size()));
  std::vector<absl::StatusOr<MemoryDomains>> domains(hosts.size(), absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (size_t w = 0; w < hosts.size(); ++w) {
    threads.emplace_back([&, w] {
      domains[w] =
          FormMemoryDomains(hosts, kind, *groups[w], MonotonicTime::Now() + absl::Seconds(20));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return domains;
}

TEST(MemoryDomainsTest, WorkersOfHostFormDomain) {
  const auto all = Form({"a", "b", "a", "c", "b", "a"}, CollectiveKind::kAuto);
  for (size_t w = 0; w < all.size(); ++w) {
    ASSERT_TRUE(all[w].ok()) << all[w].status();
    EXPECT_EQ(all[w]->by_worker, (std::vector<int>{0, 1, 0, 2, 1, 0}));
    EXPECT_EQ(all[w]->warning, "");
    EXPECT_EQ(all[w]->host_memory == nullptr, w == 3) << "worker " << w;
  }
  EXPECT_EQ(all[0]->host_memory->workers(), (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(all[4]->host_memory->process(), 1);
}

TEST(MemoryDomainsTest, UcxMakesEachWorkerItsOwnDomain) {
  for (const auto& domains : Form({"a", "a"}, CollectiveKind::kUcx)) {
    ASSERT_TRUE(domains.ok()) << domains.status();
    EXPECT_EQ(domains->by_worker, (std::vector<int>{0, 1}));
    EXPECT_EQ(domains->host_memory, nullptr);
  }
}

TEST(MemoryDomainsTest, SharedMemoryOverSeveralHostsIsRejected) {
  for (const auto& domains : Form({"a", "b"}, CollectiveKind::kSharedMemory)) {
    EXPECT_THAT(domains.status(), IsError(absl::StatusCode::kInvalidArgument, "one host"));
  }
}

// Each worker's status has its own reason, and no worker waits until the deadline.
TEST(HostMemoryTest, WorkerOfAnotherUserFailsAll) {
  const std::vector<int> workers = {0, 1, 2};
  const auto groups = CreateMemoryWorkerGroups(3);
  std::vector<absl::Status> statuses(3);
  std::vector<std::thread> threads;
  for (int w = 0; w < 3; ++w) {
    threads.emplace_back([&, w] {
      const MonotonicTime deadline = MonotonicTime::Now() + absl::Seconds(20);
      ASSERT_TRUE(groups[w]->Join(deadline).ok());
      const uid_t user = w == 1 ? geteuid() + 1 : geteuid();
      statuses[w] = HostMemory::Connect(workers, *groups[w], deadline, user).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(statuses[0], IsError(absl::StatusCode::kPermissionDenied, "another user"));
  EXPECT_THAT(statuses[1], IsError(absl::StatusCode::kPermissionDenied, "another user"));
  // Worker 2 can connect to both workers, and the connections then close.
  EXPECT_THAT(statuses[2], IsError(absl::StatusCode::kUnavailable, "Unix socket"));
}

TEST(HostMemoryTest, WorkersSeeWhatOthersWrite) {
  const auto all = Form({"a", "a"}, CollectiveKind::kAuto);
  HostMemory& first = *all[0]->host_memory;
  HostMemory& second = *all[1]->host_memory;
  const auto own = first.Allocate(5'000'000);
  ASSERT_TRUE(own.ok()) << own.status();
  own->get()[4'999'999] = std::byte{7};
  const auto position = first.PositionOf(own->get() + 4'999'999);
  ASSERT_NE(position, AddressSpace::Position::kPrivate);
  EXPECT_NE(second.AddressOf(position), own->get() + 4'999'999);
  EXPECT_EQ(*second.AddressOf(position), std::byte{7});
  EXPECT_EQ(second.PositionOf(second.AddressOf(position)), position);
  const std::byte elsewhere{};
  EXPECT_EQ(first.PositionOf(&elsewhere), AddressSpace::Position::kPrivate);
  EXPECT_EQ(first.AddressOf(first.PositionOf(nullptr)), nullptr);
}

TEST(HostMemoryTest, FreedMemoryIsZeroWhenReused) {
  const auto all = Form({"a", "a"}, CollectiveKind::kAuto);
  HostMemory& memory = *all[0]->host_memory;
  for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{3} << 20}) {
    std::byte* address = nullptr;
    for (int round = 0; round < 2; ++round) {
      const auto block = memory.Allocate(bytes);
      ASSERT_TRUE(block.ok()) << block.status();
      if (round == 1) {
        EXPECT_EQ(block->get(), address);
      }
      address = block->get();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % 64, 0u);
      for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(address[i], std::byte{0}) << i;
      std::memset(address, 0x5a, bytes);
    }
  }
}

TEST(HostMemoryTest, TooLargeBlockIsRejected) {
  const auto all = Form({"a", "a"}, CollectiveKind::kAuto);
  const auto block = all[0]->host_memory->Allocate(size_t{1} << 50);
  EXPECT_THAT(block.status(), IsError(absl::StatusCode::kResourceExhausted, "1125899906842624"));
}

TEST(HostMemoryTest, SharedBlockIsFreedAfterItsLastHolder) {
  const auto all = Form({"a", "a"}, CollectiveKind::kAuto);
  const auto groups = CreateMemoryWorkerGroups(2);
  const auto share = [&](const std::string& name) {
    std::vector<std::shared_ptr<std::byte>> blocks(2);
    std::vector<std::thread> threads;
    for (int w = 0; w < 2; ++w) {
      threads.emplace_back([&, w] {
        const MonotonicTime deadline = MonotonicTime::Now() + absl::Seconds(20);
        ASSERT_TRUE(groups[w]->Join(deadline).ok());
        const auto block = all[w]->host_memory->Share(1 << 20, name, *groups[w], deadline);
        ASSERT_TRUE(block.ok()) << block.status();
        blocks[w] = *block;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return blocks;
  };
  auto first = share("first");
  first[0].get()[3] = std::byte{1};
  EXPECT_EQ(first[1].get()[3], std::byte{1});
  const std::byte* const address = first[0].get();
  first[0] = nullptr;  // the other worker still holds it
  auto second = share("second");
  EXPECT_NE(second[0].get(), address);
  EXPECT_EQ(first[1].get()[3], std::byte{1});
  first[1] = nullptr;
  EXPECT_EQ(share("third")[0].get(), address);
}

TEST(HostMemoryTest, SharedBlockOutlivesItsFirstWorker) {
  auto all = Form({"a", "a"}, CollectiveKind::kAuto);
  const auto groups = CreateMemoryWorkerGroups(2);
  std::shared_ptr<std::byte> blocks[2];
  std::vector<std::thread> threads;
  for (int w = 0; w < 2; ++w) {
    threads.emplace_back([&, w] {
      const MonotonicTime deadline = MonotonicTime::Now() + absl::Seconds(20);
      ASSERT_TRUE(groups[w]->Join(deadline).ok());
      blocks[w] = all[w]->host_memory->Share(1 << 20, "block", *groups[w], deadline).value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  blocks[1].get()[3] = std::byte{1};
  blocks[0] = nullptr;
  all[0]->host_memory = nullptr;  // as at the end of its process
  EXPECT_EQ(blocks[1].get()[3], std::byte{1});
}

TEST(HostMemoryTest, WorkerThatHasEndedIsNotAlive) {
  auto all = Form({"a", "a"}, CollectiveKind::kAuto);
  HostMemory& memory = *all[0]->host_memory;
  EXPECT_TRUE(memory.IsAlive(0));
  EXPECT_TRUE(memory.IsAlive(1));
  all[1]->host_memory = nullptr;
  EXPECT_FALSE(memory.IsAlive(1));
}

}  // namespace
}  // namespace mirrorflow
