// SPDX-License-Identifier: Apache-2.0
//
// Tests that programs compiled for GPUs are cached in files, and that only intact files are used.
#include "kernels/cuda/libraries/compile.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/libraries/program.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

namespace fs = std::filesystem;

class CompileTest : public testing::Test {
 protected:
  CompileTest() : folder_(fs::path(testing::TempDir()) / "kernel_cache") {
    fs::remove_all(folder_);
    ResetFakeCuda();
    Use(folder_.string());
  }
  ~CompileTest() override { fs::remove_all(folder_); }

  static void Use(const std::string& folder) {
    setenv("MIRRORFLOW_KERNEL_CACHE", folder.c_str(), /*replace=*/1);
  }
  // Returns how often the compiler runs for a program that adds `number`. The process keeps nothing
  // of the program, so the next call needs the file or the compiler.
  static int64_t Compilations(int number) {
    const int64_t before = NumCudaCompilations();
    CudaProgram program;
    program.Add({.parameters = "float* x", .body = "  *x += " + std::to_string(number) + ";"});
    const absl::Status finished = program.Finish();
    EXPECT_TRUE(finished.ok()) << finished;
    return NumCudaCompilations() - before;
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_)) files.push_back(entry.path());
    return files;
  }

  const fs::path folder_;
};

TEST_F(CompileTest, CachedProgramIsNotCompiledAgain) {
  EXPECT_EQ(Compilations(1), 1);
  EXPECT_EQ(Files().size(), 1);
  EXPECT_EQ(Compilations(1), 0);
  EXPECT_EQ(Compilations(2), 1);
  EXPECT_EQ(Files().size(), 2);
  Use("none");
  EXPECT_EQ(Compilations(1), 1);
  EXPECT_EQ(Files().size(), 2);
}

// Threads compile different programs concurrently. A program that several threads request is
// compiled once.
TEST_F(CompileTest, ThreadsCompileConcurrently) {
  const int64_t before = NumCudaCompilations();
  std::atomic<int> inside{0}, max_inside{0};
  SetFakeNvrtcHook([&] {
    const int now = ++inside;
    int seen = max_inside.load();
    while (seen < now && !max_inside.compare_exchange_weak(seen, now)) {
    }
    // Waits until a second thread is compiling.
    for (int i = 0; i < 10'000 && max_inside.load() < 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    --inside;
  });
  std::vector<std::thread> threads;
  for (const int number : {7, 7, 8, 8}) {
    threads.emplace_back([number] {
      CudaProgram program;
      program.Add({.parameters = "float* x", .body = "  *x += " + std::to_string(number) + ";"});
      EXPECT_EQ(program.Finish(), absl::OkStatus());
    });
  }
  for (std::thread& thread : threads) thread.join();
  SetFakeNvrtcHook(nullptr);
  EXPECT_EQ(max_inside.load(), 2);
  EXPECT_EQ(NumCudaCompilations() - before, 2);
}

TEST_F(CompileTest, DamagedFilesAreReplaced) {
  EXPECT_EQ(Compilations(1), 1);
  const fs::path file = Files().at(0);
  const auto size = fs::file_size(file);
  for (const auto left : {size - 1, size / 2, decltype(size){0}}) {
    fs::resize_file(file, left);
    EXPECT_EQ(Compilations(1), 1) << left;
    EXPECT_EQ(fs::file_size(file), size);
  }
  {
    std::fstream changed(file, std::ios::in | std::ios::out | std::ios::binary);
    changed.seekp(static_cast<std::streamoff>(size - 8));
    changed << "garbage";
  }
  EXPECT_EQ(Compilations(1), 1);
  EXPECT_EQ(Compilations(1), 0);
}

TEST_F(CompileTest, FolderThatOthersCanWriteIsNotUsed) {
  EXPECT_EQ(Compilations(1), 1);
  for (const fs::perms others : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(folder_, fs::perms::owner_all | others);
    EXPECT_EQ(Compilations(1), 1);
  }
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(Compilations(1), 0);
}

TEST_F(CompileTest, FileThatOthersCanWriteIsReplaced) {
  EXPECT_EQ(Compilations(1), 1);
  fs::permissions(Files().at(0), fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(Compilations(1), 1);
  EXPECT_EQ(Compilations(1), 0);
}

TEST_F(CompileTest, LinkInFolderIsReplaced) {
  EXPECT_EQ(Compilations(1), 1);
  const fs::path file = Files().at(0), elsewhere = fs::path(testing::TempDir()) / "elsewhere";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
  EXPECT_EQ(Compilations(1), 1);
  EXPECT_FALSE(fs::is_symlink(file));
}

TEST_F(CompileTest, OnlyOwnerCanWriteCacheForAnyUmask) {
  const mode_t before = umask(0);
  EXPECT_EQ(Compilations(1), 1);
  umask(before);
  EXPECT_EQ(Compilations(1), 0);
}

TEST_F(CompileTest, UnwritableFolderIsIgnored) {
  std::ofstream(folder_) << "a file";
  EXPECT_EQ(Compilations(1), 1);
  EXPECT_EQ(Compilations(1), 1);
}

TEST_F(CompileTest, CompilerErrorIsReportedAndNotCached) {
  CudaProgram program;
  program.Add({.parameters = "float* x", .body = "  *x = no_such_thing;"});
  const absl::Status refused = program.Finish();
  EXPECT_THAT(refused, IsError(absl::StatusCode::kInternal, "NVRTC", "no_such_thing"));
  EXPECT_TRUE(!fs::exists(folder_) || Files().empty());
}

}  // namespace
}  // namespace mirrorflow
