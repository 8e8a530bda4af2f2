// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/variables_file.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/session.h"
#include "framework/workers/connection.h"
#include "train/safetensors/safetensors.h"

namespace mirrorflow {
namespace {

// The keys of the file's metadata. A list has one name per line.
constexpr char kStep[] = "mirrorflow.step";
constexpr char kOptimizerState[] = "mirrorflow.optimizer_state";
constexpr char kCounters[] = "mirrorflow.counters";
constexpr char kUninitialized[] = "mirrorflow.uninitialized";

std::set<std::string> NamesIn(const Safetensors& contents, const char* entry) {
  const auto it = contents.metadata.find(entry);
  if (it == contents.metadata.end()) return {};
  return absl::StrSplit(it->second, '\n', absl::SkipEmpty());
}

std::string ListOf(const std::vector<std::string>& names) {
  constexpr size_t kMaxNames = 20;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
    shown.push_back(Printable(names[i]));
  }
  return absl::StrCat(names.size(), " (", absl::StrJoin(shown, ", "),
                      names.size() > kMaxNames ? ", ..." : "", ")");
}

// Replaces the trailing number in each part of a name with `*`: `dense/kernel` and `dense_1/kernel`
// both become `dense*/kernel*`.
std::string WithoutNumbers(absl::string_view name) {
  std::vector<std::string> parts;
  for (absl::string_view part : absl::StrSplit(name, '/')) {
    absl::string_view base = part;
    while (!base.empty() && absl::ascii_isdigit(base.back())) base.remove_suffix(1);
    const bool is_numbered = base.size() < part.size() && base.size() > 1 && base.back() == '_';
    parts.push_back(absl::StrCat(is_numbered ? base.substr(0, base.size() - 1) : part, "*"));
  }
  return absl::StrJoin(parts, "/");
}

// Groups the names by WithoutNumbers(). Returns an error if a group has different members in the
// session and in the file, because the numbers may then refer to different layers.
absl::Status CheckNumberedNames(const std::vector<std::string>& in_session,
                                const std::vector<std::string>& in_file) {
  using Families = std::map<std::string, std::set<std::string>>;
  const auto families_of = [](const std::vector<std::string>& names) {
    Families families;
    for (const std::string& name : names) families[WithoutNumbers(name)].insert(name);
    return families;
  };
  const Families own = families_of(in_session), other = families_of(in_file);
  for (const auto& [family, names] : own) {
    const auto it = other.find(family);
    if (it == other.end() || it->second == names) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the numbers in ", Printable(family),
        " follow the creation order and may refer to different layers; name the layers explicitly "
        "(`.name` in their options), or set `trust_numbered_names` if the numbers match; expected "
        "the same names in the session and the file, got ",
        absl::StrJoin(names, ", "), " in the session and ", absl::StrJoin(it->second, ", "),
        " in the file"));
  }
  return absl::OkStatus();
}

// Matches a session's variables with a file's tensors, by name.
class Matcher {
 public:
  Matcher(const Safetensors& contents, const VariableLayout& layout, const LoadOptions& options)
      : contents_(contents),
        layout_(layout),
        options_(options),
        saved_state_(NamesIn(contents, kOptimizerState)) {
    saved_state_.merge(NamesIn(contents, kCounters));
  }

  // Sets the report's lists of loaded, missing and kept variables. Returns an error that names
  // every variable whose tensor does not fit.
  absl::Status MatchSession(LoadReport* report) const {
    const std::set<std::string> uninitialized = NamesIn(contents_, kUninitialized);
    ErrorList differences;
    for (const VariableInfo& variable : layout_.variables()) {
      const std::string& name = variable.name;
      const auto unreadable = contents_.unreadable.find(name);
      if (unreadable != contents_.unreadable.end()) {
        if (!IsIgnored(variable)) return unreadable->second;
        continue;
      }
      const auto it = contents_.tensors.find(name);
      if (it == contents_.tensors.end()) {
        if (uninitialized.count(name) > 0) continue;
        if (IsRequired(variable)) report->missing.push_back(name);
        if (IsState(variable) && !IsRequired(variable)) report->kept_state.push_back(name);
        continue;
      }
      const Tensor& tensor = it->second;
      if (variable.dtype == tensor.dtype() && variable.shape == tensor.shape()) {
        report->loaded.push_back(name);
      } else if (!IsIgnored(variable)) {
        differences.Add(absl::StrCat("variable '", name, "': expected ",
                                     DataTypeName(variable.dtype), variable.shape.ToString(),
                                     ", got ", tensor.TypeString()));
      }
    }
    return differences.ToStatus();
  }

  // Sets the report's list of tensors that the session does not use.
  void MatchFile(LoadReport* report) const {
    const std::vector<VariableInfo>& variables = layout_.variables();
    const bool needs_state =
        options_.all_state && std::any_of(variables.begin(), variables.end(), IsState);
    const auto match = [&](const std::string& name) {
      const bool is_state = saved_state_.count(name) > 0 && !needs_state;
      if (layout_.Find(name) < 0 && !is_state) report->unexpected.push_back(name);
    };
    for (const auto& [name, tensor] : contents_.tensors) match(name);
    for (const auto& [name, status] : contents_.unreadable) match(name);
  }

  // Returns the names of the model variables. Their layer numbers may differ between session and
  // file.
  std::vector<std::string> names_of_session() const {
    std::vector<std::string> names;
    for (const VariableInfo& v : layout_.variables()) {
      if (options_.required.has_value() ? IsRequired(v) : !IsState(v)) names.push_back(v.name);
    }
    return names;
  }
  std::vector<std::string> names_of_file() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : contents_.tensors) {
      const int variable = layout_.Find(name);
      const VariableInfo* const v = variable >= 0 ? &layout_.variables()[variable] : nullptr;
      const bool is_left_out =
          v != nullptr ? IsState(*v) || IsIgnored(*v) : saved_state_.count(name) > 0;
      if (!is_left_out) names.push_back(name);
    }
    return names;
  }

 private:
  static bool IsState(const VariableInfo& v) { return v.is_optimizer_state || v.on_read; }
  bool IsRequired(const VariableInfo& v) const {
    if (options_.required.has_value()) return options_.required->count(v.name) > 0;
    return options_.all_state || !IsState(v);
  }
  // Returns whether to skip a tensor that does not fit the variable.
  bool IsIgnored(const VariableInfo& v) const {
    return options_.required.has_value() && !IsRequired(v);
  }

  const Safetensors& contents_;
  const VariableLayout& layout_;
  const LoadOptions& options_;
  std::set<std::string> saved_state_;  // optimizer and metric state in the file
};

}  // namespace

std::string LoadReport::ToString() const {
  return absl::StrCat("loaded ", loaded.size(), " variables, missing ", ListOf(missing),
                      ", unexpected ", ListOf(unexpected),
                      kept_state.empty() ? "" : absl::StrCat(", kept ", ListOf(kept_state)));
}

absl::Status CollectVariables(Session& session, Safetensors* contents) {
  contents->metadata.clear();
  MF_ASSIGN_OR_RETURN(const uint64_t step, session.CopyVariables(&contents->tensors));
  std::vector<std::string> optimizer_state, counters, uninitialized;
  for (const VariableInfo& variable : session.layout().variables()) {
    if (variable.is_optimizer_state) {
      optimizer_state.push_back(variable.name);
    } else if (variable.on_read) {
      counters.push_back(variable.name);
    }
    if (!contents->tensors.contains(variable.name)) uninitialized.push_back(variable.name);
  }
  contents->metadata[kStep] = absl::StrCat(step);
  if (!optimizer_state.empty()) {
    contents->metadata[kOptimizerState] = absl::StrJoin(optimizer_state, "\n");
  }
  if (!counters.empty()) contents->metadata[kCounters] = absl::StrJoin(counters, "\n");
  if (!uninitialized.empty()) {
    contents->metadata[kUninitialized] = absl::StrJoin(uninitialized, "\n");
  }
  return absl::OkStatus();
}

absl::Status SaveVariables(Session& session, absl::string_view path) {
  Safetensors contents;
  MF_RETURN_IF_ERROR(CollectVariables(session, &contents));
  return session.connection().worker() == 0 ? WriteSafetensors(path, contents) : absl::OkStatus();
}

absl::StatusOr<LoadReport> MatchVariables(const Safetensors& contents, absl::string_view path,
                                          const Session& session, const LoadOptions& options) {
  const VariableLayout& layout = session.layout();
  const Matcher matcher(contents, layout, options);
  LoadReport report;
  MF_RETURN_IF_ERROR(Annotate(matcher.MatchSession(&report), path));
  matcher.MatchFile(&report);
  for (std::vector<std::string>* names :
       {&report.loaded, &report.missing, &report.unexpected, &report.kept_state}) {
    std::sort(names->begin(), names->end());
  }
  const bool exact = report.missing.empty() && report.unexpected.empty();
  const bool fits = report.missing.empty() && (exact || options.required.has_value());
  if (options.strict && !fits) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a tensor for each variable and no other tensors; missing ",
                     ListOf(report.missing), ", unexpected ", ListOf(report.unexpected),
                     options.all_state ? "" : "; use `{.strict = false}` to load the rest"));
  }
  const bool needs_any = !options.required.has_value() || !options.required->empty();
  if (report.loaded.empty() && !contents.tensors.empty() && !layout.variables().empty() &&
      needs_any) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": no tensor name matches a variable; expected names such as '",
        layout.variables()[0].name, "', got '", Printable(contents.tensors.begin()->first), "'"));
  }
  if (!fits && !options.trust_numbered_names) {
    MF_RETURN_IF_ERROR(
        Annotate(CheckNumberedNames(matcher.names_of_session(), matcher.names_of_file()), path));
  }
  return report;
}

absl::StatusOr<LoadReport> LoadVariables(absl::string_view path, Session& session,
                                         const LoadOptions& options) {
  MF_ASSIGN_OR_RETURN(const Safetensors contents, ReadSafetensors(path));
  MF_ASSIGN_OR_RETURN(LoadReport report, MatchVariables(contents, path, session, options));
  std::map<std::string, Tensor> values;
  for (const std::string& name : report.loaded) values[name] = contents.tensors.at(name);
  MF_RETURN_IF_ERROR(session.AssignVariables(values));
  uint64_t step;
  const auto saved_step = contents.metadata.find(kStep);
  if (report.missing.empty() && report.kept_state.empty() &&
      saved_step != contents.metadata.end() && absl::SimpleAtoi(saved_step->second, &step)) {
    session.SetStep(step);
  }
  return report;
}

}  // namespace mirrorflow
