// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "framework/core/status.h"
#include "nlohmann/json.hpp"
#include "tools/bench/benchmarks.h"
#include "tools/bench/machine.h"
#include "tools/bench/start_peers.h"
#include "tools/bench/statistics.h"
#include "tools/bench/training_case.h"
#include "tools/flags/command_line.h"

ABSL_FLAG(std::vector<std::string>, threads, {},
          "bench serving: client counts to measure, such as 1,4; default: 1,2");
ABSL_DECLARE_FLAG(std::vector<std::string>, peers);

namespace mirrorflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kModels[] = {"mlp", "cnn", "lstm"};
constexpr double kLogitTolerance = 1e-4;
constexpr double kRoundMs = 500;  // a few thousand requests, enough for a 99th percentile
constexpr int kMaxThreads = 64;

// One side of the comparison.
struct Server {
  Implementation of;
  std::function<absl::StatusOr<LoadTiming>(double round_ms)> serve;
  std::vector<LoadTiming> turns = {};  // the first is the warm-up
};

absl::Status CompareLogits(const Tensor& ours, const std::vector<double>& theirs) {
  const absl::Span<const float> expected = ours.flat<float>();
  if (theirs.size() != expected.size()) {
    return absl::FailedPreconditionError(absl::StrCat("wrong number of logits; expected ",
                                                      expected.size(), ", got ", theirs.size()));
  }
  for (size_t i = 0; i < theirs.size(); ++i) {
    // NaN also fails.
    if (std::abs(theirs[i] - expected[i]) <= kLogitTolerance) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("logit ", i, " differs; expected ", expected[i], ", got ", theirs[i]));
  }
  return absl::OkStatus();
}

// Returns a server's figures in the rounds that were kept.
std::vector<double> InRounds(const Server& server, const Rounds& rounds,
                             double (*figure)(const LoadTiming&)) {
  std::vector<double> values;
  for (const int round : rounds.kept) values.push_back(figure(server.turns[round + 1]));
  return values;
}

struct Time {
  const char* name;
  double (*ms)(const LoadTiming&);
};
// The round time divided by the number of requests of all clients.
constexpr Time kTimePerRequest = {"time_per_request", [](const LoadTiming& load) {
                                    return 1e3 * load.seconds / static_cast<double>(load.requests);
                                  }};
constexpr Time kLatencies[] = {{"p50", [](const LoadTiming& load) { return load.p50_ms; }},
                               {"p99", [](const LoadTiming& load) { return load.p99_ms; }}};

double RequestsPerSecond(const LoadTiming& load) {
  return static_cast<double>(load.requests) / load.seconds;
}

std::string Text(const Estimate& e, std::string (*format)(double)) {
  return absl::StrCat(format(e.median), " (", format(e.low), " to ", format(e.high), ")");
}

void AddTo(Json* json, const std::string& name, const Estimate& e) {
  json->update({{name, e.median}, {name + "_low", e.low}, {name + "_high", e.high}});
}

void ReportServer(absl::string_view model, int threads, const Server& server, const Rounds& rounds,
                  Report* report) {
  const Estimate rate = MedianOf(InRounds(server, rounds, RequestsPerSecond));
  std::string text = absl::StrFormat("serving/%-5s threads=%d %-12s requests_per_s=%s", model,
                                     threads, server.of.name, Text(rate, FormatNumber));
  Json json = {{"case", absl::StrCat("serving/", model)},
               {"threads", threads},
               {"implementation", server.of.name},
               {"version", server.of.version}};
  AddTo(&json, "requests_per_s", rate);
  for (const Time& latency : kLatencies) {
    const Estimate ms = MedianOf(InRounds(server, rounds, latency.ms));
    absl::StrAppend(&text, " ", latency.name, "=", Text(ms, FormatMs));
    AddTo(&json, absl::StrCat(latency.name, "_ms"), ms);
  }
  if (server.of.empty_call_ms > 0) {
    absl::StrAppend(&text, " empty_call=", FormatMs(server.of.empty_call_ms));
    json["empty_call_ms"] = server.of.empty_call_ms;
  }
  absl::StrAppend(&text, " rounds=", rounds.kept.size(), " discarded=", rounds.discarded);
  json["rounds"] = rounds.kept.size();
  report->AddLine(text, json);
}

// Reports the ratios of the peer's times to Mirrorflow's.
void ReportRatios(absl::string_view model, int threads, const Server& ours, const Server& peer,
                  const Rounds& rounds, Report* report) {
  std::string text = absl::StrFormat("serving/%-5s threads=%d %s / %s:", model, threads,
                                     peer.of.name, ours.of.name);
  Json json = {
      {"case", absl::StrCat("serving/", model)}, {"threads", threads}, {"peer", peer.of.name}};
  for (const Time& time : {kTimePerRequest, kLatencies[0], kLatencies[1]}) {
    const Estimate ratio =
        RatioOf(InRounds(peer, rounds, time.ms), InRounds(ours, rounds, time.ms));
    absl::StrAppend(&text, " ", time.name, "=", Text(ratio, FormatNumber));
    AddTo(&json, absl::StrCat(time.name, "_ratio"), ratio);
  }
  report->AddLine(text, json);
}

absl::Status MeasureServing(const std::string& model, int threads, Report* report) {
  const PinnedTo cores(0, threads);
  MF_ASSIGN_OR_RETURN(ReadyStep s, PrepareServing(model));
  MF_ASSIGN_OR_RETURN(const auto file, CaseFile::Write(*s.session, s.feeds));
  const absl::Span<const Tensor> example(&s.feeds[0], 1);
  MF_ASSIGN_OR_RETURN(const StepOutputs logits, s.step.Run(example));
  std::vector<Server> servers = {{.of = {}, .serve = [&](double ms) {
                                    return RunClosedLoop(threads, absl::Milliseconds(ms), [&](int) {
                                      return s.step.Run(example).status();
                                    });
                                  }}};
  for (const std::string& name : absl::GetFlag(FLAGS_peers)) {
    MF_ASSIGN_OR_RETURN(auto process, StartPeer(absl::StrCat("serving_", name),
                                                {model, absl::StrCat(threads), file->path()}));
    MF_RETURN_IF_ERROR(Annotate(CompareLogits(logits[0], process->start().logits),
                                absl::StrCat(model, ", ", name)));
    const std::shared_ptr<PeerProcess> peer = std::move(process);
    servers.push_back({.of = {.name = name,
                              .version = peer->start().version,
                              .empty_call_ms = peer->start().empty_call_ms},
                       .serve = [peer](double ms) { return peer->Serve(ms); }});
  }
  std::vector<Side> sides;
  for (Server& server : servers) {
    sides.push_back([&server](double ms) -> absl::StatusOr<double> {
      MF_ASSIGN_OR_RETURN(const LoadTiming load, server.serve(ms));
      server.turns.push_back(load);
      return kTimePerRequest.ms(load);
    });
  }
  MF_ASSIGN_OR_RETURN(const Rounds rounds,
                      MeasureInTurns(sides, {.rounds = absl::GetFlag(FLAGS_rounds),
                                             .round_ms = kRoundMs,
                                             .canary_threads = threads}));
  for (const Server& server : servers) ReportServer(model, threads, server, rounds, report);
  for (size_t peer = 1; peer < servers.size(); ++peer) {
    ReportRatios(model, threads, servers[0], servers[peer], rounds, report);
  }
  return absl::OkStatus();
}

// Parses --threads.
absl::StatusOr<std::vector<int64_t>> NumbersOfThreads() {
  MF_ASSIGN_OR_RETURN(std::vector<int64_t> numbers,
                      ParseFlagIntegers("threads", absl::GetFlag(FLAGS_threads), 1, kMaxThreads));
  if (numbers.empty()) numbers = {1, 2};
  return numbers;
}

}  // namespace

absl::Status BenchServing(Report* report) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, NumbersOfThreads());
  for (const char* model : kModels) {
    for (const int64_t threads : numbers) {
      MF_RETURN_IF_ERROR(MeasureServing(model, static_cast<int>(threads), report));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckServingFlags() {
  MF_RETURN_IF_ERROR(CheckPeersFlag({"onnxruntime", "tensorflow"}));
  return NumbersOfThreads().status();
}

}  // namespace mirrorflow
