// SPDX-License-Identifier: Apache-2.0
#include "framework/core/cgroup.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/runtime/usable_cpus.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"

namespace mirrorflow {
namespace {

using Files = std::map<std::string, std::string>;

constexpr uint64_t kMiB = 1 << 20;
constexpr char kMountOfV2[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
constexpr char kMountsOfV1[] =
    "29 23 0:25 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n"
    "32 29 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "33 29 0:29 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory\n";

// Returns the Cgroup of a file system that contains `files`.
Cgroup Tree(const Files& files) {
  static int number = 0;
  const std::string name = absl::StrCat("cgroup_", getpid(), "_", ++number);
  for (const auto& [path, text] : files) WriteTemporary(absl::StrCat(name, "/", path), text);
  return Cgroup(TemporaryPath(name));
}

// Returns the Cgroup of a version 2 tree in which this process is in /pod/box.
Cgroup TreeOfV2(Files files) {
  files["proc/self/cgroup"] = "0::/pod/box\n";
  files["proc/self/mountinfo"] = kMountOfV2;
  return Tree(files);
}

TEST(CgroupTest, SmallestLimitOfAllLevelsAppliesInVersion2) {
  const Cgroup inner = TreeOfV2({{"sys/fs/cgroup/pod/box/cpu.max", "150000 100000\n"},
                                 {"sys/fs/cgroup/pod/cpu.max", "800000 100000\n"},
                                 {"sys/fs/cgroup/pod/box/memory.max", "1048576\n"},
                                 {"sys/fs/cgroup/pod/memory.max", "max\n"}});
  EXPECT_EQ(inner.Cpus(), 1.5);
  EXPECT_EQ(inner.MemoryLimit(), kMiB);
  const Cgroup outer = TreeOfV2({{"sys/fs/cgroup/pod/box/cpu.max", "max 100000\n"},
                                 {"sys/fs/cgroup/pod/cpu.max", "50000 100000\n"},
                                 {"sys/fs/cgroup/pod/box/memory.max", "2097152\n"},
                                 {"sys/fs/cgroup/memory.max", "1048576\n"}});
  EXPECT_EQ(outer.Cpus(), 0.5);
  EXPECT_EQ(outer.MemoryLimit(), kMiB);
}

TEST(CgroupTest, SmallestLimitOfAllLevelsAppliesInVersion1) {
  const Cgroup group =
      Tree({{"proc/self/cgroup", "5:memory:/pod/box\n4:cpu,cpuacct:/pod\n1:name=systemd:/\n"},
            {"proc/self/mountinfo", kMountsOfV1},
            {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
            {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"},
            {"sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us", "250000\n"},
            {"sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us", "100000\n"},
            {"sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "1048576\n"},
            {"sys/fs/cgroup/memory/pod/box/memory.limit_in_bytes", "9223372036854771712\n"}});
  EXPECT_EQ(group.Cpus(), 2.5);
  EXPECT_EQ(group.MemoryLimit(), kMiB);
}

TEST(CgroupTest, LargestValueInVersion1MeansNoLimit) {
  const Cgroup group =
      Tree({{"proc/self/cgroup", "5:memory:/\n"},
            {"proc/self/mountinfo", kMountsOfV1},
            {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}});
  EXPECT_EQ(group.MemoryLimit(), std::nullopt);
}

TEST(CgroupTest, EachVersion1ControllerMayHaveItsOwnHierarchy) {
  const Cgroup hybrid = Tree(
      {{"proc/self/cgroup", "5:memory:/box\n0::/box\n"},
       {"proc/self/mountinfo",
        absl::StrCat("40 29 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", kMountsOfV1)},
       {"sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1048576\n"},
       {"sys/fs/cgroup/unified/box/memory.max", "1\n"},
       {"sys/fs/cgroup/unified/box/cpu.max", "300000 100000\n"}});
  EXPECT_EQ(hybrid.Cpus(), 3.0);
  EXPECT_EQ(hybrid.MemoryLimit(), kMiB);
}

TEST(CgroupTest, ContainerThatSeesOnlyItsOwnGroupFindsItAtTheMountPoint) {
  const char* const kCpuMax = "sys/fs/cgroup/cpu.max";
  const struct {
    const char *group, *top;
  } cases[] = {{"/host/pod/box", "/host/pod/box"},  // without a cgroup namespace
               {"/", "/"},                          // with one
               {"/../../other", "/"},               // moved after its namespace was created
               {"/host/podium", "/host/pod"}};      // not below the mounted group
  for (const auto& c : cases) {
    const Cgroup group =
        Tree({{"proc/self/cgroup", absl::StrCat("0::", c.group, "\n")},
              {"proc/self/mountinfo",
               absl::StrCat("30 23 0:26 ", c.top, " /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")},
              {kCpuMax, "400000 100000\n"}});
    EXPECT_EQ(group.Cpus(), 4.0) << c.group;
  }
}

TEST(CgroupTest, NamesTheInnermostGroupThatHasReachedItsTaskLimit) {
  Files files = {{"sys/fs/cgroup/pod/box/pids.max", "max\n"},
                 {"sys/fs/cgroup/pod/box/pids.current", "20\n"},
                 {"sys/fs/cgroup/pod/pids.max", "20\n"},
                 {"sys/fs/cgroup/pod/pids.current", "19\n"}};
  EXPECT_EQ(TreeOfV2(files).ReachedTaskLimit(), "");
  files["sys/fs/cgroup/pod/pids.current"] = "20\n";
  EXPECT_THAT(TreeOfV2(files).ReachedTaskLimit(), testing::EndsWith("/sys/fs/cgroup/pod/pids.max"));
  files["sys/fs/cgroup/pod/box/pids.max"] = "20\n";
  EXPECT_THAT(TreeOfV2(files).ReachedTaskLimit(), testing::EndsWith("/pod/box/pids.max"));
}

TEST(CgroupTest, MissingAndMalformedFilesLimitNothing) {
  const auto expect_no_limit = [](const Cgroup& group, const std::string& what) {
    EXPECT_EQ(group.Cpus(), std::nullopt) << what;
    EXPECT_EQ(group.MemoryLimit(), std::nullopt) << what;
    EXPECT_EQ(group.MemoryLeft(0), std::nullopt) << what;
    EXPECT_EQ(group.ReachedTaskLimit(), "") << what;
  };
  expect_no_limit(Cgroup("/no/such/root"), "no files");
  expect_no_limit(TreeOfV2({}), "no limits");
  for (const char* text : {"", "\n", "max\n", "0 0\n", "-1 100000\n", "100000 0\n", "x y\n",
                           "1 2 3\n", "99999999999999999999 100000\n"}) {
    expect_no_limit(TreeOfV2({{"sys/fs/cgroup/pod/box/cpu.max", text},
                              {"sys/fs/cgroup/pod/box/memory.max", text}}),
                    text);
  }
  for (const char* text : {"", ":\n", "0:\n", "0::\n", "0::x\n", "0::x/y\n", "a:b:c:d\n"}) {
    expect_no_limit(Tree({{"proc/self/cgroup", text}, {"proc/self/mountinfo", kMountOfV2}}), text);
  }
  for (const char* text : {"", " - \n", "1 2 3 - cgroup2 x y\n", "30 23 0:26 / /x rw\n"}) {
    expect_no_limit(Tree({{"proc/self/cgroup", "0::/\n"}, {"proc/self/mountinfo", text}}), text);
  }
}

TEST(CgroupTest, CachedFilesAndFreeSwapCountAsUsable) {
  const std::string folder = "sys/fs/cgroup/pod/box/";
  Files files = {
      {folder + "memory.max", "1000"},
      {folder + "memory.current", "700"},
      {folder + "memory.stat", "anon 400\ninactive_file 150\nactive_file 50\nshmem 9\n"}};
  EXPECT_EQ(TreeOfV2(files).MemoryLeft(0), 500);
  EXPECT_EQ(TreeOfV2(files).MemoryLeft(70), 570);
  files[folder + "memory.swap.max"] = "30";
  files[folder + "memory.swap.current"] = "10";
  EXPECT_EQ(TreeOfV2(files).MemoryLeft(70), 520);
  files[folder + "memory.current"] = "5000";  // above the limit, which was lowered later
  EXPECT_EQ(TreeOfV2(files).MemoryLeft(0), 0);
  const std::string v1 = "sys/fs/cgroup/memory/";
  EXPECT_EQ(Tree({{"proc/self/cgroup", "5:memory:/\n"},
                  {"proc/self/mountinfo", kMountsOfV1},
                  {v1 + "memory.limit_in_bytes", "1000"},
                  {v1 + "memory.usage_in_bytes", "700"},
                  {v1 + "memory.stat", "inactive_file 1\ntotal_inactive_file 100\n"}})
                .MemoryLeft(0),
            400);
}

TEST(UsableMemoryTest, ControlGroupCanReduceUsableMemory) {
  const uint64_t machine = UsableMemory(Cgroup("/no/such/root"));
  EXPECT_GT(machine, 64 * kMiB);
  EXPECT_EQ(UsableMemory(TreeOfV2({{"sys/fs/cgroup/pod/memory.max", "1048576"}})), kMiB);
  EXPECT_EQ(UsableMemory(TreeOfV2({{"sys/fs/cgroup/pod/memory.max", "9000000000000000000"}})),
            machine);
}

TEST(NumUsableCpusTest, FractionOfCpuCountsAsOne) {
  const int all = static_cast<int>(UsableCpus().size());
  const auto with = [](const std::string& text) {
    return NumUsableCpus(TreeOfV2({{"sys/fs/cgroup/pod/cpu.max", text}}));
  };
  EXPECT_EQ(with("max 100000"), all);
  EXPECT_EQ(with("100000 100000"), 1);
  EXPECT_EQ(with("1000 100000"), 1);
  EXPECT_EQ(with("150000 100000"), std::min(all, 2));
  EXPECT_EQ(with("9000000000 100000"), all);
}

}  // namespace
}  // namespace mirrorflow
