// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/ignored_workers.h"

#include <cstdlib>
#include <string>

#include "distribute/strategy/strategy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct Launcher {
  const char* name;
  Environment (*environment)(int worker);  // for one of two workers
};
constexpr Launcher kLaunchers[] = {
    {"MIRRORFLOW_NUM_WORKERS",
     [](int worker) -> Environment {
       return {{"MIRRORFLOW_NUM_WORKERS", "2"},
               {"MIRRORFLOW_WORKER_INDEX", std::to_string(worker)},
               {"MIRRORFLOW_COORDINATOR", "127.0.0.1:5000"}};
     }},
    {"TF_CONFIG",
     [](int worker) -> Environment {
       return {{"TF_CONFIG", R"({"cluster": {"worker": ["a:1", "b:1"]},
                                 "task": {"type": "worker", "index": )" +
                                 std::to_string(worker) + "}}"}};
     }},
    {"torchrun",
     [](int worker) -> Environment {
       return {{"RANK", std::to_string(worker)},
               {"WORLD_SIZE", "2"},
               {"MASTER_ADDR", "h0"},
               {"MASTER_PORT", "29500"},
               {"TORCHELASTIC_RUN_ID", "job"}};
     }},
    // This environment names no coordinator.
    {"MPI (PMI)",
     [](int worker) -> Environment {
       return {{"PMI_RANK", std::to_string(worker)}, {"PMI_SIZE", "2"}};
     }},
    {"SLURM step 7.0",
     [](int worker) -> Environment {
       return {{"SLURM_JOB_ID", "7"},
               {"SLURM_STEP_ID", "0"},
               {"SLURM_PROCID", std::to_string(worker)},
               {"SLURM_NTASKS", "2"},
               {"SLURM_STEP_NODELIST", "n[1-2]"}};
     }},
};

TEST(IgnoredWorkersTest, FirstWorkerOfEachLauncherWarns) {
  for (const Launcher& launcher : kLaunchers) {
    const std::string warning = WarningOfIgnoredWorkers(launcher.environment(0), "SomeStrategy");
    EXPECT_THAT(warning, StartsWith("SomeStrategy: ")) << launcher.name;
    EXPECT_THAT(warning, HasSubstr(launcher.name));
    EXPECT_THAT(warning, HasSubstr("MultiWorkerMirroredStrategy"));
    EXPECT_THAT(WarningOfIgnoredWorkers(launcher.environment(1), "SomeStrategy"), IsEmpty());
  }
}

TEST(IgnoredWorkersTest, ProcessStartedAloneDoesNotWarn) {
  for (const Launcher& launcher : kLaunchers) {
    Environment environment = launcher.environment(0);
    environment["MIRRORFLOW_CLUSTER"] = "none";
    EXPECT_THAT(WarningOfIgnoredWorkers(environment, "SomeStrategy"), IsEmpty()) << launcher.name;
  }
  EXPECT_THAT(WarningOfIgnoredWorkers({}, "SomeStrategy"), IsEmpty());
  EXPECT_THAT(
      WarningOfIgnoredWorkers({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"HOME", "/"}}, "SomeStrategy"),
      IsEmpty());
}

TEST(IgnoredWorkersTest, IncompleteEnvironmentWarns) {
  EXPECT_THAT(WarningOfIgnoredWorkers({{"PMI_RANK", "1"}}, "SomeStrategy"),
              AllOf(StartsWith("SomeStrategy: "), HasSubstr("PMI_SIZE")));
}

TEST(IgnoredWorkersTest, HintAtOtherWorkersCausesWarning) {
  const Environment environments[] = {
      {{"HOROVOD_RANK", "1"}, {"HOROVOD_SIZE", "2"}},
      {{"TF_CONFIG", "{}"}, {"PMIX_RANK", "1"}},
  };
  for (const Environment& environment : environments) {
    EXPECT_THAT(WarningOfIgnoredWorkers(environment, "SomeStrategy"),
                AllOf(StartsWith("SomeStrategy: "), HasSubstr("only worker"),
                      HasSubstr("MIRRORFLOW_CLUSTER=none")))
        << environment.begin()->first;
  }
}

// Strategies that ignore the other workers warn only once per process, however many sessions they
// create.
TEST(IgnoredWorkersTest, ProcessPrintsOneWarning) {
  for (const auto& [name, value] : kLaunchers[0].environment(0)) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    const auto mirrored = MirroredStrategy::Create({.num_cpu_replicas = 2});
    ASSERT_TRUE(mirrored.ok()) << mirrored.status();
    EXPECT_TRUE((*mirrored)->NewSession(Graph()).ok());
    const auto one = OneDeviceStrategy::Create();
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_TRUE((*one)->NewSession(Graph()).ok());
  }
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_THAT(printed, StartsWith("WARNING: MirroredStrategy: "));
  EXPECT_EQ(printed.find('\n'), printed.size() - 1) << printed;
}

// A program prints the warnings of its cluster before it creates a strategy.
TEST(IgnoredWorkersDeathTest, HintThatHasBeenPrintedIsNotRepeated) {
  const auto print = [] {
    for (const auto& [name, value] : kLaunchers[0].environment(0)) unsetenv(name.c_str());
    setenv("PMIX_RANK", "1", /*overwrite=*/1);
    const auto cluster = ClusterResolver::FromEnvironment(ProcessEnvironment());
    if (!cluster.ok()) std::exit(1);
    PrintWarnings(*cluster);
    WarnOfIgnoredWorkers("SomeStrategy");
    std::exit(0);
  };
  EXPECT_EXIT(print(), testing::ExitedWithCode(0), "^WARNING: PMIX_RANK is 1[^\n]*\n$");
}

}  // namespace
}  // namespace mirrorflow
