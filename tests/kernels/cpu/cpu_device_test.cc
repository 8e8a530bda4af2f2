// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_device.h"

#include "gtest/gtest.h"
#include "tests/support/files.h"

namespace mirrorflow {
namespace {

TEST(NumUsableCoresTest, ControlGroupLimitsCores) {
  WriteTemporary("root/proc/self/cgroup", "0::/\n");
  WriteTemporary("root/proc/self/mountinfo",
                 "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  WriteTemporary("root/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(NumUsableCores(Cgroup(TemporaryPath("root"))), 1);
}

}  // namespace
}  // namespace mirrorflow
