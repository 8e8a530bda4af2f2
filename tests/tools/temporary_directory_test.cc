// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/temporary_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

TEST(TemporaryDirectoryTest, NewDirectoryAdmitsOnlyThisUser) {
  const mode_t before = umask(0);
  std::string removed;
  {
    const TemporaryDirectory one, other;
    EXPECT_NE(one.path(), other.path());
    for (const std::string& path : {one.path(), other.path()}) {
      struct stat info;
      ASSERT_EQ(lstat(path.c_str(), &info), 0) << path;
      EXPECT_EQ(info.st_mode, S_IFDIR | 0700u) << path;
      EXPECT_EQ(info.st_uid, geteuid()) << path;
      EXPECT_TRUE(std::filesystem::is_empty(path)) << path;
    }
    removed = one.path();
    std::ofstream(removed + "/file") << "text";
  }
  umask(before);
  EXPECT_FALSE(std::filesystem::exists(removed));
}

TEST(TemporaryDirectoryTest, PathDoesNotExistIfParentIsUnusable) {
  setenv("TMPDIR", "/dev/null", 1);
  const TemporaryDirectory directory;
  unsetenv("TMPDIR");
  EXPECT_FALSE(std::filesystem::exists(directory.path())) << directory.path();
}

}  // namespace
}  // namespace mirrorflow
