// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "distribute/all_kernels.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "kernels/cuda/gpu.h"
#include "ops/all/all_ops.h"
#include "ops/fused_ops.h"
#include "ops/registry.h"
#include "ops/sharding_rules.h"
#include "tools/cli/commands.h"

ABSL_FLAG(std::string, markdown, "",
          "ops: write the op reference as Markdown pages into this directory, which must exist");

namespace mirrorflow {
namespace {

constexpr size_t kWidth = 118;
constexpr char kFusedPage[] = "fused_ops";

// A page of the op reference.
struct Page {
  std::string name;  // the page's file name, without the extension
  std::string stem;  // the stem of the file in ops/ that defines the page's ops
  std::vector<const OpDef*> ops;
};

std::vector<Page> AllPages() {
  std::vector<Page> pages;
  for (const OpFamily& family : OpFamilies()) {
    OpRegistry own;
    family.register_ops(own);
    Page page{.name = std::string(family.stem.substr(family.stem.rfind('/') + 1)),
              .stem = std::string(family.stem)};
    for (const OpDef* op : own.All()) page.ops.push_back(AllOps().Find(op->name));
    pages.push_back(std::move(page));
  }
  pages.push_back({.name = kFusedPage, .stem = kFusedPage, .ops = FusedOps().All()});
  std::ranges::sort(pages, {}, &Page::name);
  return pages;
}

// Returns a page's title: `Matrix diag` for `matrix_diag`.
std::string TitleOf(absl::string_view name) {
  std::string title = absl::StrReplaceAll(name, {{"_", " "}});
  title[0] = absl::ascii_toupper(title[0]);
  return title;
}

// Escapes schema text for a table cell, so that Markdown renders it unchanged.
std::string InCell(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"*", "\\*"}, {"<", "\\<"}});
}

// Breaks text into lines of at most kWidth bytes, unless a single word is longer. All lines except
// the first start with `indent`.
std::string Wrapped(absl::string_view text, absl::string_view indent = "") {
  std::string lines;
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (column > 0 && column + 1 + word.size() > kWidth) {
      absl::StrAppend(&lines, "\n", indent);
      column = indent.size();
    } else if (column > 0) {
      absl::StrAppend(&lines, " ");
      ++column;
    }
    absl::StrAppend(&lines, word);
    column += word.size();
  }
  return lines;
}

std::string TypeOf(const ArgDef& arg) {
  if (!arg.type_list_attr.empty()) return arg.type_list_attr;
  const std::string type =
      arg.type_attr.empty() ? std::string(DataTypeName(arg.dtype)) : arg.type_attr;
  return arg.number_attr.empty() ? type : absl::StrCat(arg.number_attr, " * ", type);
}

std::string Arguments(absl::Span<const ArgDef> args) {
  return absl::StrJoin(args, ", ", [](std::string* out, const ArgDef& arg) {
    absl::StrAppend(out, arg.is_static ? "static " : "", arg.name, ": ", TypeOf(arg));
  });
}

// Returns `MatMul(a: T, b: T) -> (product: T)`, on two lines if it does not fit on one.
std::string Signature(const OpDef& op) {
  const std::string inputs = absl::StrCat(op.name, "(", Arguments(op.inputs), ")");
  const std::string outputs = absl::StrCat("-> (", Arguments(op.outputs), ")");
  const bool fits = inputs.size() + outputs.size() < kWidth;
  return absl::StrCat(Wrapped(inputs, "    "), fits ? " " : "\n    ", Wrapped(outputs, "    "));
}

bool FollowsFromInputs(const OpDef& op, const AttrDef& attr) {
  return std::ranges::any_of(op.inputs, [&](const ArgDef& arg) {
    return arg.type_attr == attr.name || arg.number_attr == attr.name ||
           arg.type_list_attr == attr.name;
  });
}

std::string DefaultOf(const OpDef& op, const AttrDef& attr) {
  if (attr.default_value.has_value()) {
    return absl::StrCat("`", attr.default_value->ToString(), "`");
  }
  return FollowsFromInputs(op, attr) ? "from the inputs" : "required";
}

std::string AttributeTable(const OpDef& op) {
  if (op.attrs.empty()) return "";
  std::string table = "| attribute | type | default |\n|---|---|---|\n";
  for (const AttrDef& attr : op.attrs) {
    std::string type = attr.type;
    if (!attr.allowed.empty()) {
      absl::StrAppend(
          &type, ": ",
          absl::StrJoin(attr.allowed, ", ", [](std::string* out, const AttrValue& value) {
            absl::StrAppend(out, value.ToString());
          }));
    }
    if (attr.minimum.has_value()) absl::StrAppend(&type, ", at least ", *attr.minimum);
    absl::StrAppend(&table, "| `", attr.name, "` | ", InCell(type), " | ", DefaultOf(op, attr),
                    " |\n");
  }
  return table;
}

// Describes the op's sharding rule. `stem` is the stem of the op's file.
std::string ShardingText(const OpDef& op, absl::string_view stem) {
  if (op.sharding == nullptr) return absl::StrCat("no rule: ", op.no_sharding_reason);
  const std::pair<ShardingFn, absl::string_view> shared[] = {
      {ElementwiseSharding, "element by element"},
      {JointlyLinearSharding, "element by element; a sum of partial sums stays partial"},
      {MultilinearSharding, "element by element; one operand may be a partial sum"},
      {LinearInFirstSharding, "element by element; the first operand may be a partial sum"},
      {ReplicatedSharding, "every replica computes the whole result from replicated operands"},
  };
  for (const auto& [rule, text] : shared) {
    if (op.sharding == rule) return std::string(text);
  }
  return absl::StrCat("its own rule, in `ops/", stem, ".cc`");
}

std::string KernelText(const OpDef& op) {
  if (op.has(kView)) return "none: the output shares the input's memory";
  if (op.role == OpRole::kCollective) return "none: communicators run it";
  std::vector<std::string> devices;
  for (const char* device : {"CPU", "GPU"}) {
    if (AllKernels().Has(op.name, device)) devices.push_back(device);
  }
  if (!devices.empty()) return absl::StrJoin(devices, ", ");
  switch (op.role) {
    case OpRole::kPlaceholder:
      return "none: its value is fed, or taken from its input";
    case OpRole::kNoOp:
      return "none: it only orders other nodes";
    case OpRole::kVariable:
      return "none: a session holds the variable";
    case OpRole::kBranch:
    case OpRole::kLoop:
      return "none: a step runs its functions";
    default:
      return FusedOps().Find(op.name) != nullptr ? "none in this build"
                                                 : "none: the compiler replaces it";
  }
}

std::vector<std::string> TraitTexts(const OpDef& op) {
  static constexpr std::pair<OpTrait, absl::string_view> kTexts[] = {
      {kStateful, "stateful: never folded or merged, and never dropped if a step needs it"},
      {kCommutative, "commutative"},
      {kElementwise, "element-wise"},
      {kRandom, "draws random numbers, which do not depend on the number of replicas"},
      {kPerReplica, "differs between replicas"},
      {kOverwrites, "does not need the variable to have a value"},
      {kOwnOp, "not in TensorFlow: a graph file also contains its expansion into TensorFlow's ops"},
      {kFailsOnData, "can fail depending on the values of its operands"},
      {kSumsProducts, "computed in bfloat16 with mixed precision"},
      {kKeepsPrecision, "follows its operands with mixed precision"},
      {kNeedsPrecision, "computed in float with mixed precision"},
  };
  std::vector<std::string> texts;
  for (const auto& [trait, text] : kTexts) {
    if (op.has(trait)) texts.emplace_back(text);
  }
  return texts;
}

// Returns the page section for `op`, which ops/`stem`.cc defines.
std::string Section(const OpDef& op, absl::string_view stem) {
  std::string text = absl::StrCat("## ", op.name, "\n\n```text\n", Signature(op), "\n\n  ",
                                  Wrapped(op.doc, "  "), "\n```\n\n");
  if (const std::string table = AttributeTable(op); !table.empty()) {
    absl::StrAppend(&text, table, "\n");
  }
  std::vector<std::pair<absl::string_view, std::string>> facts = {
      {"gradient", op.gradient != nullptr ? "yes" : absl::StrCat("none: ", op.no_gradient_reason)},
      {"sharding", ShardingText(op, stem)},
      {"kernels", KernelText(op)},
  };
  if (const std::vector<std::string> traits = TraitTexts(op); !traits.empty()) {
    facts.emplace_back("traits", absl::StrJoin(traits, "; "));
  }
  if (op.max_ulps.of_float > 0) {
    facts.emplace_back(
        "error", absl::StrCat("on a CPU, at most ", op.max_ulps.of_float, " ulps in float and ",
                              op.max_ulps.of_double, " in double"));
  }
  for (const auto& [name, fact] : facts) {
    absl::StrAppend(&text, Wrapped(absl::StrCat("- ", name, ": ", fact), "  "), "\n");
  }
  return text;
}

std::string PageText(const Page& page) {
  std::string text = absl::StrCat("# ", TitleOf(page.name), "\n\n");
  const std::string header = absl::StrCat("ops/", page.stem, ".h");
  absl::StrAppend(&text,
                  Wrapped(page.stem == kFusedPage
                              ? "Only the compiler creates these ops; no graph file contains them."
                              : absl::StrCat("The builders are in [`", header, "`](../../", header,
                                             "). [README.md](README.md) explains the terms.")),
                  "\n");
  for (const OpDef* op : page.ops) absl::StrAppend(&text, "\n", Section(*op, page.stem));
  return text;
}

constexpr char kIndexIntroduction[] =
    R"(# Ops

All of Mirrorflow's ops, in alphabetical order. Names, attributes and defaults are TensorFlow's. `mirrorflow ops NAME`
prints an op's section in a terminal.

- `static` inputs (shapes, axes) must be known when the step is compiled.
- An attribute of type `type` names the dtype of the inputs and outputs that refer to it. `N * T` stands for `N`
  tensors of dtype `T`, and a `list(type)` for one tensor of each of its dtypes.
- Builders are functions in namespace `mf::ops`. They take what the inputs do not determine as arguments or options.
- `gradient` states whether `mf::Gradients` can differentiate the op; if not, the reason follows `none`.
- `sharding` describes how the op works on operands whose rows are divided over the replicas. An op with a rule
  computes on its shard. The operands of an op without a rule are gathered first, unless the compiler handles the op
  specially.
- `error` is an upper bound on the error of an element-wise function with one operand, in units in the last place (ulps)
  of the exact result. Near the roots of Digamma, the ulps are those of 1. The bound for Gelu is without `approximate`.
  Subnormal results can be flushed to 0. Functions without a bound are correctly rounded.
- `kernels` lists the device types that have a kernel for the op. CPU kernels compute half and bfloat16 in float if
  they have no specialised code. A factory may reject a dtype that the schema allows; the error then names the node
  and the dtype.

`mirrorflow ops --markdown=docs/ops`, built with `--config=cuda`, writes these pages.

| op | result | page |
|---|---|---|
)";

std::string IndexText(absl::Span<const Page> pages) {
  std::map<std::string, std::string> rows;
  for (const Page& page : pages) {
    for (const OpDef* op : page.ops) {
      rows[op->name] =
          absl::StrCat("| [`", op->name, "`](", page.name, ".md#", absl::AsciiStrToLower(op->name),
                       ") | ", InCell(op->doc), " | ", page.name, " |\n");
    }
  }
  std::string text = kIndexIntroduction;
  for (const auto& [op, row] : rows) absl::StrAppend(&text, row);
  return text;
}

absl::Status WritePages(const std::string& directory) {
  if (!BuiltWithCuda()) {
    std::fprintf(stderr, "built without CUDA: the pages list no GPU kernels\n");
  }
  const std::vector<Page> pages = AllPages();
  for (const Page& page : pages) {
    MF_RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(directory, "/", page.name, ".md"), {PageText(page)}));
  }
  return WriteFileAtomically(absl::StrCat(directory, "/README.md"), {IndexText(pages)});
}

}  // namespace

absl::Status ShowOps(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  const std::string directory = absl::GetFlag(FLAGS_markdown);
  if (!directory.empty()) {
    if (!args.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("ops: --markdown takes no op names; expected none, got '", args[0], "'"));
    }
    return Annotate(WritePages(directory), "--markdown");
  }
  for (const std::string& name : args) {
    if (FusedOps().Find(name) == nullptr) {
      MF_RETURN_IF_ERROR(Annotate(AllOps().Lookup(name).status(), "ops"));
    }
    for (const Page& page : AllPages()) {
      for (const OpDef* op : page.ops) {
        if (op->name == name) std::printf("%s\n", Section(*op, page.stem).c_str());
      }
    }
  }
  if (!args.empty()) return absl::OkStatus();
  for (const OpDef* op : AllOps().All()) {
    std::printf("%-32s %s\n", op->name.c_str(), op->doc.c_str());
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
