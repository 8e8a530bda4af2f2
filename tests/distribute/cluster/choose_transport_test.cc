// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/choose_transport.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "distribute/cluster/host_network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/cluster/memory_worker_group.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

constexpr char kSecret[] = "0123456789abcdef";
const TlsFiles kCertificates = {.certificate = "cert.pem", .key = "key.pem"};

// A directory that describes devices as the kernel does in /sys. `file` is relative to the
// directory of an RDMA device.
class Devices {
 public:
  explicit Devices(const std::string& file, const std::string& line = "")
      : root_(TemporaryPath("sys")) {
    std::filesystem::remove_all(root_);
    if (file.empty()) return;
    const std::filesystem::path path = absl::StrCat(root_, "/class/infiniband/mlx5_0/", file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << line << "\n";
  }
  const std::string& root() const { return root_; }

 private:
  const std::string root_;
};

TEST(RdmaDevicesTest, NetworkDeviceOfEachKindIsFound) {
  EXPECT_FALSE(HasRdma("eth0", Devices("").root()));
  // An InfiniBand port, a RoCE device, whose addresses name their network device, and a software
  // device.
  EXPECT_TRUE(HasRdma("eth0", Devices("device/net/eth0").root()));
  EXPECT_TRUE(HasRdma("eth0", Devices("ports/1/gid_attrs/ndevs/3", "eth0").root()));
  EXPECT_TRUE(HasRdma("eth0", Devices("parent", "eth0").root()));
}

// A host can have an RDMA device although its name resolves to an address in another network.
TEST(RdmaDevicesTest, OtherDevicesOfHostAreIgnored) {
  EXPECT_FALSE(HasRdma("eth0", Devices("device/net/eth1").root()));
  EXPECT_FALSE(HasRdma("eth0", Devices("ports/1/gid_attrs/ndevs/0", "eth01").root()));
  EXPECT_FALSE(HasRdma("lo", Devices("parent", "eth0").root()));
}

// Returns whether each worker chooses UCX.
std::vector<bool> Choose(const JoinOptions& options, const std::vector<bool>& has_rdma) {
  const auto groups = CreateMemoryWorkerGroups(static_cast<int>(has_rdma.size()));
  std::vector<char> over_ucx(has_rdma.size());
  std::vector<std::thread> threads;
  for (size_t w = 0; w < has_rdma.size(); ++w) {
    threads.emplace_back([&, w] {
      const MonotonicTime deadline = MonotonicTime::Now() + absl::Seconds(30);
      EXPECT_TRUE(groups[w]->Join(deadline).ok());
      const absl::StatusOr<bool> chosen = ChooseUcx(options, has_rdma[w], *groups[w], deadline);
      EXPECT_TRUE(chosen.ok()) << chosen.status();
      over_ucx[w] = chosen.value_or(false);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {over_ucx.begin(), over_ucx.end()};
}

TEST(ChooseTransportTest, AutoChoosesUcxOnlyIfAllWorkersHaveRdma) {
  EXPECT_THAT(Choose({}, {true, true}), ElementsAre(true, true));
  EXPECT_THAT(Choose({}, {true, false}), ElementsAre(false, false));
  EXPECT_THAT(Choose({}, {false, true}), ElementsAre(false, false));
}

TEST(ChooseTransportTest, AutoDoesNotChooseUcxForProtectedJob) {
  EXPECT_THAT(Choose({.secret = kSecret}, {true, true}), ElementsAre(false, false));
  EXPECT_THAT(Choose({.tls = kCertificates}, {true, true}), ElementsAre(false, false));
}

TEST(ChooseTransportTest, NamedTransportIsUsed) {
  EXPECT_THAT(Choose({.secret = kSecret, .collective = CollectiveKind::kUcx}, {false, false}),
              ElementsAre(true, true));
  EXPECT_THAT(Choose({.collective = CollectiveKind::kTcp}, {true, true}),
              ElementsAre(false, false));
}

TEST(ChooseTransportTest, CertificatesWithUnencryptedLibraryAreRejected) {
  const absl::Status status =
      CheckUnencrypted({.tls = kCertificates, .collective = CollectiveKind::kUcx}, "UCX");
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "UCX"));
  EXPECT_TRUE(CheckUnencrypted({.insecure = true, .tls = kCertificates}, "NCCL").ok());
  EXPECT_TRUE(CheckUnencrypted({.secret = kSecret}, "NCCL").ok());
}

}  // namespace
}  // namespace mirrorflow
