// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/cluster_resolver.h"

#include <ostream>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Environment Joined(Environment a, const Environment& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const Environment kTorchrun = {{"RANK", "3"},
                               {"WORLD_SIZE", "4"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "h0"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_RUN_ID", "job"}};
const Environment kSlurm = {{"SLURM_JOB_ID", "4242"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_PROCID", "3"},
                            {"SLURM_NTASKS", "4"},
                            {"SLURM_LOCALID", "1"},
                            {"SLURM_STEP_NUM_TASKS", "4"},
                            {"SLURM_STEP_NODELIST", "n[001-002]"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"OMPI_MCA_orte_hnp_uri", "77.0;tcp://10.0.0.1,172.17.0.2:35467"}};

// --- what each launcher sets ----------------------------------------------------------------

struct Launcher {
  const char* name;
  Environment environment;
  int num_workers;
  int task_index;
  std::string coordinator;  // PORT stands for a derived port
  std::string source;
  std::optional<int> local_rank = std::nullopt;
};
void PrintTo(const Launcher& launcher, std::ostream* out) { *out << launcher.name; }

class LauncherTest : public testing::TestWithParam<Launcher> {};

TEST_P(LauncherTest, EnvironmentNamesCluster) {
  const Launcher& want = GetParam();
  const auto cluster = ClusterResolver::FromEnvironment(want.environment);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->num_workers, want.num_workers);
  EXPECT_EQ(cluster->task_index, want.task_index);
  EXPECT_EQ(cluster->source, want.source);
  EXPECT_EQ(cluster->local_rank, want.local_rank);
  EXPECT_THAT(cluster->warnings, IsEmpty());
  const size_t derived = want.coordinator.find("PORT");
  if (derived == std::string::npos) {
    EXPECT_EQ(cluster->coordinator, want.coordinator);
  } else {
    EXPECT_EQ(cluster->coordinator.substr(0, derived), want.coordinator.substr(0, derived));
    const int port = std::atoi(cluster->coordinator.c_str() + derived);
    EXPECT_GE(port, 61440);
    EXPECT_LE(port, 65535);
  }
}

TEST(LocalSizeTest, WorkersOnOneHostAreCounted) {
  const std::pair<Environment, int> cases[] = {
      {{{"MIRRORFLOW_NUM_WORKERS", "3"},
        {"MIRRORFLOW_WORKER_INDEX", "0"},
        {"MIRRORFLOW_COORDINATOR", "a:1"},
        {"MIRRORFLOW_LOCAL_SIZE", "2"}},
       2},
      {{{"TF_CONFIG", R"({"cluster": {"worker": ["a:1", "b:1", "a:2"]},
                          "task": {"type": "worker", "index": 2}})"}},
       2},
      {Joined(kTorchrun, {{"LOCAL_WORLD_SIZE", "2"}}), 2},
      {kOpenMpi, 2},
      {Joined(kSlurm, {{"SLURM_TASKS_PER_NODE", "1,3(x2)"}, {"SLURM_NODEID", "2"}}), 3},
      {kSlurm, 1},
      {{}, 1},
  };
  for (const auto& [environment, local_size] : cases) {
    const auto cluster = ClusterResolver::FromEnvironment(environment);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    EXPECT_EQ(cluster->local_size, local_size) << cluster->source;
  }
}

constexpr char kKubeflow[] =
    R"({"cluster": {"worker": ["job-worker-0.ns.svc:2222", "job-worker-1.ns.svc:2222"],
                    "ps": []},
        "task": {"type": "worker", "index": 1}, "environment": "cloud"})";

INSTANTIATE_TEST_SUITE_P(
    Launchers, LauncherTest,
    testing::ValuesIn(std::vector<Launcher>{
        {"None", {}, 1, 0, "", "no cluster in the environment"},
        {"MirrorflowLaunch",
         {{"MIRRORFLOW_NUM_WORKERS", "2"},
          {"MIRRORFLOW_WORKER_INDEX", "1"},
          {"MIRRORFLOW_LOCAL_RANK", "1"},
          {"MIRRORFLOW_COORDINATOR", "[::1]:4000"}},
         2,
         1,
         "[::1]:4000",
         "MIRRORFLOW_NUM_WORKERS",
         1},
        {"KubeflowTFJob",
         {{"TF_CONFIG", kKubeflow}},
         2,
         1,
         "job-worker-0.ns.svc:2222",
         "TF_CONFIG",
         0},
        {"IndexIsString",
         {{"TF_CONFIG", R"({"cluster": {"worker": ["a:1", "b:1"]},
                            "task": {"type": "worker", "index": "1"}})"}},
         2,
         1,
         "a:1",
         "TF_CONFIG",
         0},
        {"ChiefIsWorkerZero",
         {{"TF_CONFIG", R"({"cluster": {"chief": ["c:1"], "worker": ["a:1", "b:1"]},
                            "task": {"type": "worker", "index": 1}})"}},
         3,
         2,
         "c:1",
         "TF_CONFIG",
         0},
        {"Chief",
         {{"TF_CONFIG", R"({"cluster": {"chief": ["c:1"], "worker": ["a:1"]},
                            "task": {"type": "chief", "index": 0}})"}},
         2,
         0,
         "c:1",
         "TF_CONFIG",
         0},
        {"MasterIsChief",
         {{"TF_CONFIG", R"({"cluster": {"master": ["c:1"], "worker": ["a:1"]},
                            "task": {"type": "master", "index": 0}})"}},
         2,
         0,
         "c:1",
         "TF_CONFIG",
         0},
        {"WorkerAfterMaster",
         {{"TF_CONFIG", R"({"cluster": {"master": ["c:1"], "worker": ["a:1"]},
                            "task": {"type": "worker", "index": 0}})"}},
         2,
         1,
         "c:1",
         "TF_CONFIG",
         0},
        {"SecondWorkerOfItsHost",
         {{"TF_CONFIG", R"({"cluster": {"worker": ["a:1", "b:1", "a:2"]},
                            "task": {"type": "worker", "index": 2}})"}},
         3,
         2,
         "a:1",
         "TF_CONFIG",
         1},
        {"EmptyCluster", {{"TF_CONFIG", R"({"cluster": {}})"}}, 1, 0, "", "TF_CONFIG"},
        {"TfConfigWithoutCluster", {{"TF_CONFIG", "{}"}}, 1, 0, "", "TF_CONFIG"},
        {"Torchrun", kTorchrun, 4, 3, "h0:29500", "torchrun", 1},
        // torchrun's agent listens on MASTER_PORT, so the coordinator needs another port.
        {"TorchrunWithAgentStore", Joined(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}), 4,
         3, "h0:29502", "torchrun", 1},
        {"TorchrunOnOneHost",
         {{"RANK", "0"},
          {"WORLD_SIZE", "2"},
          {"LOCAL_RANK", "0"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "thishost"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_RUN_ID", "x"}},
         2,
         0,
         "127.0.0.1:29500",
         "torchrun",
         0},
        {"PyTorchJob",
         {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "fd00::1"}, {"MASTER_PORT", "23456"}},
         2,
         1,
         "[fd00::1]:23456",
         "RANK and WORLD_SIZE"},
        {"OneTorchWorker", {{"RANK", "0"}, {"WORLD_SIZE", "1"}}, 1, 0, "", "RANK and WORLD_SIZE"},
        {"OpenMpi", kOpenMpi, 4, 1, "10.0.0.1:PORT", "Open MPI", 1},
        {"OpenMpiOnOneHost",
         {{"OMPI_COMM_WORLD_RANK", "1"},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"OMPI_MCA_orte_hnp_uri", "77.0;tcp://10.0.0.1:35467"}},
         2,
         1,
         "127.0.0.1:PORT",
         "Open MPI",
         1},
        {"OpenMpiOverIPv6",
         {{"OMPI_COMM_WORLD_RANK", "0"},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_MCA_orte_hnp_uri", "77.0;tcp6://[fd00::7]:35467"}},
         2,
         0,
         "[fd00::7]:PORT",
         "Open MPI"},
        {"Mpich",
         {{"PMI_RANK", "1"},
          {"PMI_SIZE", "2"},
          {"MPI_LOCALRANKID", "0"},
          {"MIRRORFLOW_COORDINATOR", "h0:5000"}},
         2,
         1,
         "h0:5000",
         "MPI (PMI)",
         0},
        {"Mvapich2",
         {{"MV2_COMM_WORLD_RANK", "1"},
          {"MV2_COMM_WORLD_SIZE", "2"},
          {"MIRRORFLOW_COORDINATOR", "h0:5000"}},
         2,
         1,
         "h0:5000",
         "MVAPICH2"},
        // The PMI variables name no host, but the variables of the surrounding SLURM step do.
        {"MpichInSlurmStep", Joined(kSlurm, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}), 4, 3,
         "n001:PORT", "MPI (PMI)"},
        {"Slurm", kSlurm, 4, 3, "n001:PORT", "SLURM step 4242.0", 1},
        {"SlurmOnOneHost",
         {{"SLURM_STEP_ID", "1"},
          {"SLURM_JOB_ID", "7"},
          {"SLURM_PROCID", "0"},
          {"SLURM_NTASKS", "2"},
          {"SLURM_JOB_NODELIST", "n7"}},
         2,
         0,
         "127.0.0.1:PORT",
         "SLURM step 7.1",
         0},
        // In an allocation, mpirun starts one SLURM task per host, so SLURM's count differs.
        {"OpenMpiInSlurmStep", Joined(kSlurm, kOpenMpi), 4, 1, "10.0.0.1:PORT", "Open MPI", 1},
        {"TorchrunInSlurmStep",
         Joined(kTorchrun, {{"SLURM_STEP_ID", "0"},
                            {"SLURM_PROCID", "1"},
                            {"SLURM_NTASKS", "2"},
                            {"SLURM_STEP_NODELIST", "n[1-2]"}}),
         4, 3, "h0:29500", "torchrun", 1},
        {"AgreeingSources", Joined(kSlurm, kTorchrun), 4, 3, "h0:29500", "torchrun", 1},
        {"ChosenSource",
         Joined({{"TF_CONFIG", kKubeflow}, {"MIRRORFLOW_CLUSTER", "slurm"}}, kSlurm), 4, 3,
         "n001:PORT", "SLURM step 4242.0", 1},
        {"NoneChosen", Joined(kSlurm, {{"MIRRORFLOW_CLUSTER", "none"}}), 1, 0, "",
         "MIRRORFLOW_CLUSTER=none"},
        {"OwnVariablesAreExplicit",
         Joined(kSlurm, {{"MIRRORFLOW_NUM_WORKERS", "1"}, {"MIRRORFLOW_WORKER_INDEX", "0"}}), 1, 0,
         "", "MIRRORFLOW_NUM_WORKERS"},
    }),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ClusterResolverTest, JobIsTakenFromLauncher) {
  const Environment mpich = {
      {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MIRRORFLOW_COORDINATOR", "h0:5000"}};
  const Environment own = {{"MIRRORFLOW_NUM_WORKERS", "2"},
                           {"MIRRORFLOW_WORKER_INDEX", "1"},
                           {"MIRRORFLOW_COORDINATOR", "h0:5000"}};
  const std::pair<Environment, std::string> cases[] = {
      {kTorchrun, "torchrun job"},
      {kSlurm, "SLURM step 4242.0"},
      {kOpenMpi, ""},
      {Joined(kOpenMpi, {{"OMPI_MCA_ess_base_jobid", "77"}, {"PMIX_NAMESPACE", "9"}}),
       "Open MPI 77"},
      {Joined(kOpenMpi, {{"PMIX_NAMESPACE", "prterun-9@1"}}), "Open MPI prterun-9@1"},
      {Joined(mpich, {{"PMI_JOBID", "7.0"}}), "MPI (PMI) 7.0"},
      // mpirun starts some ranks inside a step and some outside, so the ranks do not share a step.
      {Joined(kSlurm, kOpenMpi), ""},
      {{{"TF_CONFIG", kKubeflow}}, ""},
      {own, ""},
      {Joined(own, {{"MIRRORFLOW_JOB", "launch 12ab"}}), "launch 12ab"},
      {Joined(kSlurm, {{"MIRRORFLOW_JOB", "mine"}}), "mine"},
      {Joined(kSlurm, {{"MIRRORFLOW_JOB", ""}}), "SLURM step 4242.0"},
  };
  for (const auto& [environment, job] : cases) {
    const auto cluster = ClusterResolver::FromEnvironment(environment);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    EXPECT_EQ(cluster->job, job) << cluster->source;
  }
}

TEST(ClusterResolverTest, RejoinTimeoutIsTakenFromLauncher) {
  const auto timeout_of = [](const std::string& text) -> absl::StatusOr<absl::Duration> {
    MF_ASSIGN_OR_RETURN(const Cluster cluster,
                        ClusterResolver::FromEnvironment({{"MIRRORFLOW_REJOIN_TIMEOUT", text}}));
    return cluster.rejoin_timeout;
  };
  EXPECT_EQ(timeout_of("1m30s").value(), absl::Seconds(90));
  EXPECT_EQ(timeout_of("0").value(), absl::ZeroDuration());
  EXPECT_EQ(timeout_of("").value(), absl::ZeroDuration());
  for (const char* text : {"60", "-1s", "soon"}) {
    EXPECT_THAT(timeout_of(text).status(),
                IsError(absl::StatusCode::kInvalidArgument, "MIRRORFLOW_REJOIN_TIMEOUT", text));
  }
}

TEST(ClusterResolverTest, OptionsHavePrecedence) {
  const auto cluster =
      ClusterResolver::FromEnvironment(kSlurm, {.cluster_spec = {"h0:1", "h1:2"}, .task_index = 1});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->ToString(),
            "cluster from --cluster_spec: 2 workers, this is worker 1, coordinator h0:1");
  EXPECT_THAT(cluster->addresses, ElementsAre("h0:1", "h1:2"));
}

TEST(ClusterResolverTest, BatchScriptWithoutStepIsOneWorkerWithWarning) {
  const auto cluster =
      ClusterResolver::FromEnvironment({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->num_workers, 1);
  EXPECT_THAT(cluster->warnings, ElementsAre(HasSubstr("srun")));
}

TEST(ClusterResolverTest, FirstWorkerWarnsAboutTasksThatDoNotParticipate) {
  for (const char* job : {"ps", "evaluator", "other"}) {
    const auto cluster = [&](int index) {
      return ClusterResolver::FromEnvironment(
          {{"TF_CONFIG",
            absl::StrCat(R"({"cluster": {"worker": ["a:1", "b:1"], ")", job,
                         R"(": ["p:1"]}, "task": {"type": "worker", "index": )", index, "}}")}});
    };
    ASSERT_TRUE(cluster(0).ok()) << cluster(0).status();
    EXPECT_EQ(cluster(0)->num_workers, 2);
    EXPECT_THAT(cluster(0)->warnings, ElementsAre(HasSubstr(absl::StrCat("cluster.", job, ":"))));
    EXPECT_THAT(cluster(1)->warnings, IsEmpty());
  }
}

// The environment hints at other processes, but does not give their count or this process's index.
TEST(ClusterResolverTest, HintAtOtherProcessesCausesWarning) {
  const Environment cases[] = {
      {{"PMIX_RANK", "1"}},
      {{"FLUX_TASK_RANK", "0"}},
      {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}},
      {{"PET_NNODES", "1:4"}},
      {{"PET_NPROC_PER_NODE", "gpu"}},
      {{"PET_NPROC_PER_NODE", "auto"}},
      {{"HOROVOD_RANK", "1"}, {"HOROVOD_SIZE", "2"}},
      {{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "2"}},
      {{"HOROVOD_RANK", "1"}},
      {{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "2"}},
      {{"JSM_NAMESPACE_RANK", "1"}},
      {{"PALS_RANKID", "0"}},
      {{"PMIX_RANK", "one"}},
      // These variables describe a single worker. They are stale, or a launcher inside the job has
      // set them.
      {{"TF_CONFIG", "{}"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}},
      {{"TF_CONFIG", "{}"}, {"PMIX_RANK", "1"}},
      {{"TF_CONFIG", "{}"}, {"PMIX_RANK", "0"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"PMIX_RANK", "1"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"PET_NNODES", "2"}},
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"FLUX_TASK_RANK", "1"}},
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "2"}},
      {{"RANK", "0"},
       {"WORLD_SIZE", "1"},
       {"SLURM_NTASKS", "4"},
       {"MIRRORFLOW_CLUSTER", "torchrun"}},
      // This is the `salloc` step where the user types commands.
      {{"SLURM_STEP_ID", "4294967290"},
       {"SLURM_PROCID", "0"},
       {"SLURM_STEP_NUM_TASKS", "1"},
       {"SLURM_NTASKS", "4"}},
  };
  for (const Environment& environment : cases) {
    const auto cluster = ClusterResolver::FromEnvironment(environment);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    EXPECT_EQ(cluster->num_workers, 1);
    EXPECT_THAT(cluster->warnings, ElementsAre(HasSubstr("only worker")))
        << environment.begin()->first << "=" << environment.begin()->second;
  }
}

TEST(ClusterResolverTest, EveryLauncherThatHintsCausesOneWarning) {
  const auto cluster = ClusterResolver::FromEnvironment({{"TF_CONFIG", "{}"},
                                                         {"SLURM_NTASKS", "4"},
                                                         {"HOROVOD_RANK", "1"},
                                                         {"HOROVOD_SIZE", "2"},
                                                         {"PMIX_RANK", "1"}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_THAT(cluster->warnings,
              ElementsAre(HasSubstr("SLURM_NTASKS is 4"), HasSubstr("HOROVOD_SIZE is 2"),
                          HasSubstr("PMIX_RANK is 1")));
}

TEST(ClusterResolverTest, OnlyWorkerOfItsLauncherDoesNotWarn) {
  const Environment cases[] = {
      {{"PMIX_RANK", "0"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}},
      {{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "1"}},
      {{"FLUX_TASK_RANK", "0"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "1"}},
      {{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "1"}},
      {{"PMIX_RANK", "0"},
       {"SLURM_STEP_ID", "0"},
       {"SLURM_PROCID", "0"},
       {"SLURM_NTASKS", "1"},
       {"SLURM_STEP_NUM_TASKS", "1"}},
      {{"PET_NNODES", "1"}, {"PET_NPROC_PER_NODE", "1"}},
      {{"PMIX_RANK", ""}, {"PET_NPROC_PER_NODE", ""}},
      // torchrun resolves these to one worker.
      {{"PET_NNODES", "1:4"},
       {"PET_NPROC_PER_NODE", "gpu"},
       {"RANK", "0"},
       {"WORLD_SIZE", "1"},
       {"TORCHELASTIC_RUN_ID", "x"}},
      // The user requests a single worker.
      {{"PMIX_RANK", "1"}, {"MIRRORFLOW_CLUSTER", "none"}},
      {{"PMIX_RANK", "1"}, {"MIRRORFLOW_NUM_WORKERS", "1"}, {"MIRRORFLOW_WORKER_INDEX", "0"}},
  };
  for (const Environment& environment : cases) {
    const auto cluster = ClusterResolver::FromEnvironment(environment);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    EXPECT_EQ(cluster->num_workers, 1);
    EXPECT_THAT(cluster->warnings, IsEmpty()) << environment.begin()->first;
  }
}

TEST(ClusterResolverTest, ClusterWithoutCoordinatorResolvesIfNoneIsRequired) {
  const auto cluster = ClusterResolver::FromEnvironment({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}},
                                                        {.requires_coordinator = false});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->num_workers, 2);
  EXPECT_EQ(cluster->task_index, 1);
}

TEST(ClusterResolverTest, DerivedPortsAreEqualInOneJobAndDifferBetweenJobs) {
  Environment other = kSlurm;
  const auto one = ClusterResolver::FromEnvironment(other);
  other["SLURM_PROCID"] = "0";
  const auto same = ClusterResolver::FromEnvironment(other);
  other["SLURM_STEP_ID"] = "1";
  const auto next = ClusterResolver::FromEnvironment(other);
  ASSERT_TRUE(one.ok() && same.ok() && next.ok());
  EXPECT_EQ(one->coordinator, same->coordinator);
  EXPECT_NE(one->coordinator, next->coordinator);
}

// --- mistakes ---------------------------------------------------------------------------------

struct Mistake {
  const char* name;
  Environment environment;
  std::vector<std::string> message;  // substrings of the error
  ClusterResolver::Options options = {};
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class MistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, ErrorNamesVariable) {
  const auto cluster = ClusterResolver::FromEnvironment(GetParam().environment, GetParam().options);
  for (const std::string& part : GetParam().message) {
    EXPECT_THAT(cluster.status(), IsError(absl::StatusCode::kInvalidArgument, part));
  }
}

Environment TfConfig(const std::string& cluster, const std::string& task) {
  return {{"TF_CONFIG", absl::StrCat(R"({"cluster": )", cluster, R"(, "task": )", task, "}")}};
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, MistakeTest,
    testing::ValuesIn(std::vector<Mistake>{
        {"TfConfigIsNotJson", {{"TF_CONFIG", "{cluster"}}, {"TF_CONFIG:", "JSON"}},
        {"TfConfigIsNotObject", {{"TF_CONFIG", "[1]"}}, {"TF_CONFIG:", "JSON"}},
        {"SparseCluster",
         {{"TF_CONFIG", R"({"sparseCluster": {"worker": {"1": "h:1"}}})"}},
         {"sparseCluster:"}},
        {"IndexOutOfRange",
         TfConfig(R"({"worker": ["a:1", "b:1"]})", R"({"type": "worker", "index": 2})"),
         {"TF_CONFIG: task.index:", "got 2"}},
        {"IndexIsNegative",
         TfConfig(R"({"worker": ["a:1", "b:1"]})", R"({"type": "worker", "index": -1})"),
         {"TF_CONFIG: task.index", "got -1"}},
        {"IndexIsText",
         TfConfig(R"({"worker": ["a:1", "b:1"]})", R"({"type": "worker", "index": "one"})"),
         {"TF_CONFIG: task.index", "one"}},
        {"IndexMissing",
         TfConfig(R"({"worker": ["a:1", "b:1"]})", R"({"type": "worker"})"),
         {"TF_CONFIG: task.index:", "missing"}},
        {"ParameterServerTask",
         TfConfig(R"({"worker": ["a:1"], "ps": ["p:1"]})", R"({"type": "ps", "index": 0})"),
         {"TF_CONFIG: task.type:", "'ps'"}},
        {"ParameterServerTaskWithoutWorkers",
         TfConfig(R"({"ps": ["p:1"]})", R"({"type": "ps", "index": 0})"),
         {"TF_CONFIG: task.type:", "'ps'"}},
        {"EvaluatorTask",
         TfConfig(R"({"worker": ["a:1", "b:1"]})", R"({"type": "evaluator", "index": 0})"),
         {"TF_CONFIG: task.type:", "'evaluator'"}},
        {"TwoChiefs",
         TfConfig(R"({"chief": ["a:1"], "master": ["b:1"]})", R"({"type": "chief", "index": 0})"),
         {"TF_CONFIG: cluster.chief"}},
        {"SecondWorkerOfNoCluster",
         {{"TF_CONFIG", R"({"task": {"type": "worker", "index": 1}})"}},
         {"TF_CONFIG: task.index:", "range"}},
        // A shell started by mpiexec runs srun, whose tasks inherit the PMI variables.
        {"VariablesOfPmiAroundSlurmStep",
         Joined(kSlurm, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}),
         {"worker 0 of 1 according to MPI (PMI)", "worker 3 of 4 according to SLURM step",
          "MIRRORFLOW_CLUSTER"}},
        {"MpiexecInShellOfMpirun",
         {{"OMPI_COMM_WORLD_RANK", "0"},
          {"OMPI_COMM_WORLD_SIZE", "1"},
          {"PMI_RANK", "1"},
          {"PMI_SIZE", "2"}},
         {"worker 0 of 1 according to Open MPI", "worker 1 of 2 according to MPI (PMI)"}},
        {"OneTorchrunPerTaskOfSlurmStep",
         Joined(kSlurm, {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"TORCHELASTIC_RUN_ID", "x"}}),
         {"according to torchrun", "according to SLURM step", "MIRRORFLOW_CLUSTER"}},
        {"OneWorkerInBrokenSlurmStep",
         {{"PMI_RANK", "0"},
          {"PMI_SIZE", "1"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "0"},
          {"SLURM_NTASKS", "2"}},
         {"SLURM_STEP_NODELIST"}},
        {"WorkersAreNotList",
         TfConfig(R"({"worker": "a:1"})", R"({"type": "worker", "index": 0})"),
         {"TF_CONFIG: cluster.worker:", "addresses"}},
        {"DuplicateAddress",
         TfConfig(R"({"worker": ["a:1", "a:1"]})", R"({"type": "worker", "index": 0})"),
         {"TF_CONFIG:", "a:1", "twice"}},
        {"PortOutOfRange",
         TfConfig(R"({"worker": ["a:70000", "b:1"]})", R"({"type": "worker", "index": 0})"),
         {"TF_CONFIG: 'a:70000':", "1 to 65535"}},
        {"NoPort",
         TfConfig(R"({"worker": ["a", "b:1"]})", R"({"type": "worker", "index": 0})"),
         {"TF_CONFIG: 'a':", "port"}},
        {"IPv6WithoutBrackets",
         TfConfig(R"({"worker": ["::1:80", "b:1"]})", R"({"type": "worker", "index": 0})"),
         {"IPv6", "brackets"}},
        {"RankWithoutWorldSize", {{"RANK", "0"}}, {"RANK", "WORLD_SIZE"}},
        {"NoMasterAddress",
         {{"RANK", "0"}, {"WORLD_SIZE", "2"}},
         {"WORLD_SIZE, RANK", "MASTER_ADDR, MASTER_PORT"}},
        {"RankOutOfRange",
         {{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}},
         {"RANK:", "WORLD_SIZE = 2", "got 2"}},
        {"RankIsText",
         {{"RANK", "x"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}},
         {"RANK:", "integer", "'x'"}},
        {"MasterPortOutOfRange",
         {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "70000"}},
         {"MASTER_PORT:", "1 to 65535", "got '70000'"}},
        {"OwnVariablesWithoutCoordinator",
         {{"MIRRORFLOW_NUM_WORKERS", "2"}, {"MIRRORFLOW_WORKER_INDEX", "0"}},
         {"MIRRORFLOW_COORDINATOR"}},
        {"MpichWithoutCoordinator",
         {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}},
         {"MIRRORFLOW_COORDINATOR:", "not set"}},
        {"OpenMpiWithoutSize",
         {{"OMPI_COMM_WORLD_RANK", "0"}},
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}},
        {"SlurmStepWithoutNodes",
         {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}},
         {"SLURM_STEP_NODELIST"}},
        {"SlurmNodesMalformed",
         {{"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "0"},
          {"SLURM_NTASKS", "2"},
          {"SLURM_STEP_NODELIST", "n[1-"}},
         {"SLURM_STEP_NODELIST:", "brackets"}},
        {"DisagreeingSources",
         Joined({{"TF_CONFIG", kKubeflow}}, kSlurm),
         {"worker 1 of 2 according to TF_CONFIG", "worker 3 of 4 according to SLURM step",
          "MIRRORFLOW_CLUSTER"}},
        {"DisagreeingSourceWithoutCoordinator",
         {{"RANK", "0"},
          {"WORLD_SIZE", "2"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "5555"},
          {"OMPI_COMM_WORLD_RANK", "1"},
          {"OMPI_COMM_WORLD_SIZE", "3"}},
         {"worker 0 of 2 according to RANK and WORLD_SIZE", "worker 1 of 3 according to Open MPI"}},
        {"UnknownChoice",
         {{"MIRRORFLOW_CLUSTER", "k8s"}},
         {"MIRRORFLOW_CLUSTER:", "tf_config", "'k8s'"}},
        {"ChosenSourceIsAbsent",
         {{"MIRRORFLOW_CLUSTER", "slurm"}},
         {"MIRRORFLOW_CLUSTER:", "slurm", "SLURM_STEP_ID"}},
        {"SpecWithoutIndex",
         {},
         {"--cluster_spec:", "--task_index"},
         {.cluster_spec = {"a:1", "b:1"}}},
        {"IndexWithoutSpec", {}, {"--task_index:", "--cluster_spec"}, {.task_index = 0}},
        {"TaskIndexOutOfRange",
         {},
         {"--task_index:", "0 to 1", "got 2"},
         {.cluster_spec = {"a:1", "b:1"}, .task_index = 2}},
        {"DuplicateInSpec",
         {},
         {"--cluster_spec:", "a:1", "twice"},
         {.cluster_spec = {"a:1", "a:1"}, .task_index = 0}},
    }),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mirrorflow
