// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "distribute/cluster/cluster_resolver.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/terminal.h"
#include "mirrorflow.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/statistics.h"
#include "tools/bench/temporary_directory.h"
#include "tools/bench/training_case.h"
#include "tools/flags/cluster_flags.h"
#include "tools/flags/command_line.h"
#include "tools/launch/placement.h"

ABSL_DECLARE_FLAG(std::string, save_to);

namespace mirrorflow {
namespace {

constexpr int kWorkers = 4;
constexpr char kModel[] = "mlp";
// The lines that workers print: at startup, after the first step of each run, and after a
// checkpoint.
constexpr absl::string_view kProcess = "process ", kStepped = "stepped", kSaved = "saved";
constexpr absl::Duration kTimeout = absl::Seconds(60);

// A job of `mirrorflow launch` whose workers are recovery peers.
class Job {
 public:
  static absl::StatusOr<std::unique_ptr<Job>> Start(bool rejoins) {
    MF_ASSIGN_OR_RETURN(const std::string program, ThisProgram());
    std::unique_ptr<Job> job(new Job);
    std::vector<std::string> command = {
        program, "launch", "-n", absl::StrCat(kWorkers), "--max_restarts=1", "--restart_pause=1ms"};
    if (rejoins)
      command.push_back(absl::StrCat("--rejoin_timeout=", absl::FormatDuration(kTimeout)));
    command.insert(command.end(), {"--", program, "bench", "recovery_peer",
                                   absl::StrCat("--save_to=", job->directory_.path())});
    MF_RETURN_IF_ERROR(job->Spawn(command));
    return job;
  }

  ~Job() {
    if (launcher_ > 0) kill(launcher_, SIGTERM);
    // The launcher ends after its workers, which it kills if necessary.
    const MonotonicTime end = MonotonicTime::Now() + kTimeout;
    while (launcher_ > 0 && waitpid(launcher_, nullptr, WNOHANG) == 0) {
      if (MonotonicTime::Now() > end) kill(launcher_, SIGKILL);  // its workers then end
      absl::SleepFor(absl::Milliseconds(10));
    }
    if (output_ >= 0) close(output_);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Kills a worker. Returns the milliseconds from the kill to the end of the next step.
  absl::StatusOr<double> KillOne(int victim) {
    pid_t process = 0;
    MF_RETURN_IF_ERROR(ReadUntil(kSaved, victim, &process));
    if (process <= 0) return absl::InternalError("a worker has not printed its process id");
    const MonotonicTime begin = MonotonicTime::Now();
    if (kill(process, SIGKILL) != 0) return SystemError(errno, "kill");
    MF_RETURN_IF_ERROR(ReadUntil(kStepped, victim, &process));
    return absl::ToDoubleMilliseconds(MonotonicTime::Now() - begin);
  }

 private:
  Job() = default;

  absl::Status Spawn(const std::vector<std::string>& command) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return SystemError(errno, "pipe");
    output_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
      posix_spawn_file_actions_adddup2(&actions, ends[1], fd);
    }
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const int error = posix_spawn(&launcher_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error == 0) return absl::OkStatus();
    launcher_ = -1;
    return SystemError(error, absl::StrCat("cannot start ", command[0]));
  }

  // Reads lines until worker 0 has printed `line`. Sets `*process` to the id of the latest process
  // of `worker`.
  absl::Status ReadUntil(absl::string_view line, int worker, pid_t* process) {
    const std::string awaited = absl::StrCat("[worker 0] ", line);
    const std::string start = absl::StrCat("[worker ", worker, "] ", kProcess);
    const MonotonicTime deadline = MonotonicTime::Now() + kTimeout;
    std::string last;
    for (;;) {
      for (size_t end; (end = unread_.find('\n')) != std::string::npos;) {
        last = unread_.substr(0, end);
        unread_.erase(0, end + 1);
        absl::string_view rest = last;
        if (absl::ConsumePrefix(&rest, start) && !absl::SimpleAtoi(rest, process)) {
          return absl::InternalError(absl::StrCat("malformed process id: ", last));
        }
        if (last == awaited) return absl::OkStatus();
      }
      pollfd ready = {.fd = output_, .events = POLLIN, .revents = 0};
      const int64_t left = absl::ToInt64Milliseconds(deadline - MonotonicTime::Now());
      if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) == 0) {
        return absl::DeadlineExceededError(absl::StrCat("the job: timed out; expected '", awaited,
                                                        "', got '", last, "' as the last line"));
      }
      char bytes[4096];
      const ssize_t count = read(output_, bytes, sizeof(bytes));
      if (count == 0) {
        return absl::UnavailableError(absl::StrCat("the job has ended; its last line: ", last));
      }
      if (count < 0 && errno != EINTR) return SystemError(errno, "read");
      if (count > 0) unread_.append(bytes, count);
    }
  }

  const TemporaryDirectory directory_;  // holds the checkpoints
  pid_t launcher_ = -1;
  int output_ = -1;
  std::string unread_;
};

// Kills a different worker in each round.
Side SideOf(bool rejoins) {
  return [rejoins, round = 0](double) mutable -> absl::StatusOr<double> {
    MF_ASSIGN_OR_RETURN(const auto job, Job::Start(rejoins));
    return job->KillOne(round++ % kWorkers);
  };
}

void Say(absl::string_view line) {
  PrintLine(line);
  std::fflush(stdout);
}

absl::Status TrainForEver(const TrainingCase& training, const Strategy& strategy) {
  MF_ASSIGN_OR_RETURN(ReadyStep t, PrepareTraining(training, strategy));
  MF_ASSIGN_OR_RETURN(
      const auto checkpoints,
      CheckpointManager::Create(*t.session, {.directory = training.checkpoint_dir}));
  MF_ASSIGN_OR_RETURN(const TrainingPosition start, checkpoints->Restore());
  for (int64_t steps = 1;; ++steps) {
    MF_RETURN_IF_ERROR(t.step.Run(t.feeds).status());
    if (steps == 1 && strategy.worker() == 0) Say(kStepped);
    if (steps % kStepsBetweenSaves != 0) continue;
    MF_RETURN_IF_ERROR(checkpoints->Save({.step = start.step + steps}));
    if (steps > kStepsBetweenSaves) continue;
    MF_RETURN_IF_ERROR(checkpoints->WaitForSave());
    if (strategy.worker() == 0) Say(kSaved);
  }
}

}  // namespace

absl::Status BenchRecovery(Report* report) {
  MF_ASSIGN_OR_RETURN(const Rounds rounds,
                      MeasureInTurns({SideOf(/*rejoins=*/true), SideOf(/*rejoins=*/false)},
                                     {.rounds = absl::GetFlag(FLAGS_rounds)}));
  report->Add({.gate = "C25",
               .what = absl::StrCat(kModel, " 64, ", kWorkers,
                                    " workers, SIGKILL of one to the next step, rejoin / restart"),
               .figure = RatioOf(rounds.ms[0], rounds.ms[1]),
               .bound = 0.5,
               .at_most = true,
               .ours = FormatMedian(rounds, 0),
               .peer = absl::StrCat("restart ", FormatMedian(rounds, 1))});
  return absl::OkStatus();
}

absl::Status RecoverAsPeer(Report* /*report*/) {
  MF_ASSIGN_OR_RETURN(const Cluster cluster,
                      ClusterResolver::FromEnvironment(ProcessEnvironment()));
  Say(absl::StrCat(kProcess, getpid()));
  const TrainingCase training = {.model = kModel,
                                 .workers = cluster.num_workers,
                                 .checkpoint_dir = absl::GetFlag(FLAGS_save_to)};
  MF_ASSIGN_OR_RETURN(const auto strategy,
                      MultiWorkerMirroredStrategy::Create(
                          {.cluster = cluster, .replicas = {.num_cpu_replicas = 1}}));
  const absl::Status status =
      RunWithRejoin(*strategy, [&] { return TrainForEver(training, *strategy); });
  // Exits like any program whose peer has failed.
  std::_Exit(ExitWithError(status, ExitCodeOf(status, *strategy, kExitInternal)));
}

}  // namespace mirrorflow
