// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explain_report.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "distribute/strategy/devices.h"
#include "framework/core/json.h"
#include "framework/core/terminal.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kPrintedRows = 15;

// Returns true for the starts and finishes of collectives, except for finishes with an update that
// computes a matrix product, because arithmetic dominates them.
bool Communicates(const Plan& plan, const Instruction& instruction) {
  return instruction.kind == InstructionKind::kStart ||
         (Finishes(instruction.kind) && FlopsOf(plan, instruction) == 0);
}

// A row in the op table.
struct OpRow {
  std::string op;
  int count = 0;
  double flops = 0;
  double bytes = 0;
  double predicted_ns = 0;
  double measured_ns = 0;

  void Add(const OpRow& other) {
    count += other.count;
    flops += other.flops;
    bytes += other.bytes;
    predicted_ns += other.predicted_ns;
    measured_ns += other.measured_ns;
  }
};

// The step's totals.
struct Totals {
  double predicted_ns = 0;
  double undisturbed_ns = 0;  // from the fastest run of each instruction
  double path_ns = 0;         // time of the critical path
  double limit_ns = 0;
  double exposed_ns = 0;           // predicted time of exposed communication
  double measured_exposed_ns = 0;  // measured time of exposed communication
  int64_t read_bytes = 0;          // read by kernels
  int64_t written_bytes = 0;
  int64_t collective_bytes = 0;  // payload
};

struct Breakdown {
  Totals totals;
  std::vector<OpRow> ops;  // most expensive first
  std::vector<int> path;   // instruction indices
};

Breakdown BreakDown(const Explanation& e) {
  const Plan& plan = *e.plan;
  Breakdown breakdown;
  Totals& t = breakdown.totals;
  std::map<std::string, OpRow> by_op;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    if (instruction.node < 0) continue;
    OpRow row = {.op = PricedAs(plan, i),
                 .count = 1,
                 .flops = static_cast<double>(FlopsOf(plan, instruction)),
                 .predicted_ns = e.predicted_ns[i],
                 .measured_ns = e.fastest_ns.empty() ? 0 : e.fastest_ns[i]};
    const bool communicates = Communicates(plan, instruction);
    if (communicates) {
      t.exposed_ns += row.predicted_ns;
      t.measured_exposed_ns += row.measured_ns;
    }
    for (const MemoryAccess& access : plan.accesses[i]) {
      const int64_t bytes = TouchedBytes(plan, i, access);
      if (instruction.kind != InstructionKind::kStart) row.bytes += static_cast<double>(bytes);
      if (!communicates) (access.is_write ? t.written_bytes : t.read_bytes) += bytes;
    }
    OpRow& of_op = by_op[row.op];
    of_op.op = row.op;
    of_op.Add(row);
  }
  for (const PlannedCollective& c : plan.collectives) t.collective_bytes += c.bytes();
  for (auto& [op, row] : by_op) breakdown.ops.push_back(row);
  std::ranges::stable_sort(breakdown.ops, std::ranges::greater(), &OpRow::predicted_ns);
  breakdown.path = CriticalPath(plan, e.predicted_ns);
  for (const int i : breakdown.path) t.path_ns += e.predicted_ns[i];
  t.predicted_ns = ThreadedNs(plan, e.predicted_ns);
  if (!e.fastest_ns.empty()) t.undisturbed_ns = ThreadedNs(plan, e.fastest_ns);
  t.limit_ns = static_cast<double>(plan.flops) / e.machine.fma_flops_per_ns / e.threads;
  return breakdown;
}

std::string NodeName(const Plan& plan, int i) {
  const Instruction& instruction = plan.instructions[i];
  if (instruction.node < 0) return "event";
  const char* what = instruction.kind == InstructionKind::kStart  ? "start "
                     : Finishes(instruction.kind)                 ? "finish "
                     : instruction.kind == InstructionKind::kCopy ? "copy for "
                                                                  : "";
  return absl::StrCat(what, plan.node_names[instruction.node]);
}

double Percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

// Prints a figure for the whole step: its name, milliseconds and a remark.
void PrintFigure(const char* name, double ns, const std::string& remark) {
  PrintLine(absl::StrFormat("%-14s %9.3f ms  %s", name, ns * 1e-6, remark));
}

void PrintTotals(const Explanation& e, const Totals& t) {
  const Plan& plan = *e.plan;
  const double measured_ns = e.measured.min_ms * 1e6;
  const std::string workers =
      e.workers == 1 ? "" : absl::StrCat(e.workers, " workers over ", e.transport, ", ");
  PrintLine(absl::StrCat(e.name, ": ", workers, e.replicas,
                         e.replicas == 1 ? " replica" : " replicas",
                         e.threads == 1 ? "" : absl::StrCat(" of ", e.threads, " threads"), ", ",
                         e.batch_size, " rows each"));
  std::printf("step           %d kernels, %d collectives, %d branches and loops, %.3f MB arena\n",
              static_cast<int>(plan.kernels.size()), static_cast<int>(plan.collectives.size()),
              static_cast<int>(plan.controls.size()), static_cast<double>(plan.arena_bytes) * 1e-6);
  std::printf(
      "moved          %.3f MB read and %.3f MB written by kernels, %.3f MB in collectives\n",
      static_cast<double>(t.read_bytes) * 1e-6, static_cast<double>(t.written_bytes) * 1e-6,
      static_cast<double>(t.collective_bytes) * 1e-6);
  PrintFigure("limit", t.limit_ns,
              absl::StrFormat("%.4f Gflop of products and convolutions at %.0f Gflop/s",
                              static_cast<double>(plan.flops) * 1e-9, e.machine.fma_flops_per_ns));
  PrintFigure("predicted", t.predicted_ns,
              absl::StrFormat("the limit is %.0f %% of it", Percent(t.limit_ns, t.predicted_ns)));
  if (!e.not_run.empty()) {
    PrintLine(absl::StrCat("measured       not run: ", e.not_run));
  } else {
    PrintFigure(
        "measured", measured_ns,
        absl::StrFormat("the fastest of %d rounds, median %.3f ms; predicted / measured = "
                        "%.3f",
                        e.measured.rounds, e.measured.median_ms, t.predicted_ns / measured_ns));
    PrintFigure(
        "undisturbed", t.undisturbed_ns,
        absl::StrFormat("the fastest run of each instruction; predicted / undisturbed = %.3f",
                        t.predicted_ns / t.undisturbed_ns));
  }
  if (e.exchange.has_value()) {
    PrintFigure("with others", e.exchange->step_ns,
                absl::StrFormat("%.3f ms of it waits for other hosts; sends them %.3f MB",
                                e.exchange->exposed_ns * 1e-6,
                                static_cast<double>(e.exchange->sent_bytes) * 1e-6));
    PrintFigure("network", e.exchange->network_ns,
                absl::StrFormat("in use; %.0f %% of it is exposed",
                                Percent(e.exchange->exposed_ns, e.exchange->network_ns)));
  }
  PrintFigure("critical path", t.path_ns,
              absl::StrFormat("%.0f %% of predicted; the rest could run in parallel",
                              Percent(t.path_ns, t.predicted_ns)));
  PrintFigure("communication", t.exposed_ns,
              absl::StrFormat("exposed, %.1f %% of predicted; %.3f ms of undisturbed",
                              Percent(t.exposed_ns, t.predicted_ns), t.measured_exposed_ns * 1e-6));
}

void PrintOps(const std::vector<OpRow>& ops, double whole_ns) {
  PrintLine("");
  PrintLine(absl::StrFormat("%-36s %6s %9s %9s %12s %7s %12s", "op", "count", "Gflop", "MB",
                            "predicted ms", "share", "measured ms"));
  auto print = [&](const OpRow& row) {
    PrintLine(absl::StrFormat("%-36s %6d %9.4f %9.3f %12.4f %5.1f %% %12.4f", row.op, row.count,
                              row.flops * 1e-9, row.bytes * 1e-6, row.predicted_ns * 1e-6,
                              Percent(row.predicted_ns, whole_ns), row.measured_ns * 1e-6));
  };
  for (size_t i = 0; i < std::min(ops.size(), kPrintedRows); ++i) print(ops[i]);
  OpRow others = {.op = "others"};
  for (size_t i = kPrintedRows; i < ops.size(); ++i) others.Add(ops[i]);
  if (others.count > 0) print(others);
}

void PrintPath(const Explanation& e, const Breakdown& breakdown) {
  std::vector<int> path = breakdown.path;
  std::ranges::stable_sort(path, std::ranges::greater(), [&](int i) { return e.predicted_ns[i]; });
  path.resize(std::min(path.size(), kPrintedRows));
  std::sort(path.begin(), path.end());
  const std::string title = path.size() < breakdown.path.size()
                                ? absl::StrFormat("critical path, the longest %d of %d",
                                                  path.size(), breakdown.path.size())
                                : "critical path";
  PrintLine("");
  PrintLine(absl::StrFormat("%-60s %12s %7s", title, "predicted ms", "share"));
  for (const int i : path) {
    PrintLine(absl::StrFormat("%-60s %12.4f %5.1f %%", NodeName(*e.plan, i),
                              e.predicted_ns[i] * 1e-6,
                              Percent(e.predicted_ns[i], breakdown.totals.path_ns)));
  }
}

struct MemoryRow {
  const char* name;
  const char* key;  // in the JSON
  int64_t bytes;
  const char* remark;
};

std::vector<MemoryRow> MemoryRows(const StepMemory& m) {
  return {{"variables", "variable_bytes", m.variables, "weights and other state of the graph"},
          {"optimizer state", "optimizer_state_bytes", m.optimizer_state, ""},
          {"gradients", "gradient_bytes", m.gradients, "reduced in place by collectives"},
          {"constants", "constant_bytes", m.constants, ""},
          {"forms", "form_bytes", m.forms,
           "copies of variables and constants in the layouts of kernels"},
          {"activations", "activation_bytes", m.arena, "the arena, which includes scratch memory"},
          {"feeds", "feed_bytes", m.feeds, ""},
          {"fetches", "fetch_bytes", m.fetches, ""},
          {"total", "total_bytes", m.total(), ""},
          {"scratch", "scratch_bytes", m.scratch, "the most that one kernel uses of the arena"}};
}

void PrintMemory(const StepMemory& memory) {
  PrintLine("");
  PrintLine(absl::StrFormat("%-17s %12s", "memory, 1 replica", "MB"));
  for (const MemoryRow& row : MemoryRows(memory)) {
    PrintLine(absl::StrFormat("%-17s %12.3f  %s", row.name, static_cast<double>(row.bytes) * 1e-6,
                              row.remark));
  }
}

void PrintDivisions(const Explanation& e) {
  const Host& host = e.host;
  PrintLine("");
  PrintLine(
      absl::StrFormat("predicted on %d cores, NUMA nodes: %d with %.0f GB/s each; %d rows in all",
                      host.cores, host.numa_nodes, host.bytes_per_ns, e.batch_size * e.replicas));
  PrintLine(absl::StrFormat("%8s x %-7s %12s %12s %12s %12s", "replicas", "threads", "step ms",
                            "replica ms", "memory ms", "MB per node"));
  const CpuReplicas by_default = DefaultCpuReplicas(host.cores);
  const auto fastest = absl::c_min_element(
      e.divisions, [](const auto& a, const auto& b) { return a.step_ns() < b.step_ns(); });
  for (const CoreDivision& d : e.divisions) {
    const bool is_default =
        d.replicas == by_default.replicas && d.threads == by_default.threads_per_replica;
    PrintLine(absl::StrFormat("%8d x %-7d %12.3f %12.3f %12.3f %12.1f%s%s", d.replicas, d.threads,
                              d.step_ns() * 1e-6, d.replica_ns * 1e-6, d.memory_ns * 1e-6,
                              static_cast<double>(d.node_bytes) * 1e-6,
                              &d == &*fastest ? "  fastest" : "", is_default ? "  default" : ""));
  }
}

}  // namespace

void PrintExplanation(const Explanation& e) {
  const Breakdown breakdown = BreakDown(e);
  PrintTotals(e, breakdown.totals);
  PrintOps(breakdown.ops, breakdown.totals.predicted_ns);
  PrintPath(e, breakdown);
  if (e.memory.has_value()) PrintMemory(*e.memory);
  if (!e.divisions.empty()) PrintDivisions(e);
}

std::string ExplanationJson(const Explanation& e) {
  const Plan& plan = *e.plan;
  const Breakdown breakdown = BreakDown(e);
  const Totals& t = breakdown.totals;
  Json json = {{"case", absl::StrCat("explain/", e.name)},
               {"replicas", e.replicas},
               {"threads", e.threads},
               {"batch_size_per_replica", e.batch_size},
               {"kernels", plan.kernels.size()},
               {"collectives", plan.collectives.size()},
               {"arena_bytes", plan.arena_bytes},
               {"flops", plan.flops},
               {"read_bytes", t.read_bytes},
               {"written_bytes", t.written_bytes},
               {"collective_bytes", t.collective_bytes},
               {"fma_gflops", e.machine.fma_flops_per_ns},
               {"limit_ms", t.limit_ns * 1e-6},
               {"predicted_ms", t.predicted_ns * 1e-6},
               {"critical_path_ms", t.path_ns * 1e-6},
               {"exposed_ms", t.exposed_ns * 1e-6}};
  if (e.not_run.empty()) {
    json.update({{"min_ms", e.measured.min_ms},
                 {"median_ms", e.measured.median_ms},
                 {"rounds", e.measured.rounds},
                 {"undisturbed_ms", t.undisturbed_ns * 1e-6}});
  }
  if (e.exchange.has_value()) {
    json.update({{"workers", e.workers},
                 {"transport", e.transport},
                 {"step_with_others_ms", e.exchange->step_ns * 1e-6},
                 {"network_ms", e.exchange->network_ns * 1e-6},
                 {"network_exposed_ms", e.exchange->exposed_ns * 1e-6},
                 {"sent_bytes", e.exchange->sent_bytes}});
  }
  if (e.memory.has_value()) {
    for (const MemoryRow& row : MemoryRows(*e.memory)) json[row.key] = row.bytes;
  }
  std::string lines = JsonText(json) + "\n";
  auto add_line = [&](const Json& line) { absl::StrAppend(&lines, JsonText(line), "\n"); };
  for (const OpRow& row : breakdown.ops) {
    add_line({{"op", row.op},
              {"count", row.count},
              {"flops", row.flops},
              {"bytes", row.bytes},
              {"predicted_ms", row.predicted_ns * 1e-6},
              {"share", Percent(row.predicted_ns, t.predicted_ns)},
              {"measured_ms", row.measured_ns * 1e-6}});
  }
  for (const int i : breakdown.path) {
    add_line({{"node", NodeName(plan, i)},
              {"predicted_ms", e.predicted_ns[i] * 1e-6},
              {"share", Percent(e.predicted_ns[i], t.path_ns)}});
  }
  for (const CoreDivision& d : e.divisions) {
    add_line({{"replicas", d.replicas},
              {"threads_per_replica", d.threads},
              {"predicted_ms", d.step_ns() * 1e-6},
              {"replica_ms", d.replica_ns * 1e-6},
              {"memory_ms", d.memory_ns * 1e-6},
              {"bytes_per_node", d.node_bytes}});
  }
  return lines;
}

}  // namespace mirrorflow
