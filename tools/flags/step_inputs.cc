// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/step_inputs.h"

#include <set>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/variable_layout.h"
#include "train/checkpoint/variables_file.h"
#include "train/formats/npy.h"

ABSL_FLAG(std::vector<std::string>, feed, {},
          "run, explain, bench step: NAME=FILE.npy, a tensor to feed and its (global) value; to "
          "feed several, separate them with commas or repeat the flag; explain and bench feed "
          "random numbers to the other placeholders");
ABSL_FLAG(std::string, variables, "",
          "run, explain, bench step: a .safetensors file with a value for each variable that the "
          "step reads");
ABSL_FLAG(bool, partial_variables, false,
          "run, explain, bench step: allow --variables to omit variables that the step reads; "
          "omitted variables keep their initial values");

namespace mirrorflow {

std::vector<NamedFile> NamedFiles(absl::string_view flag, const std::vector<std::string>& values) {
  std::vector<NamedFile> files;
  for (const std::string& value : values) {
    const size_t equals = value.find('=');
    files.push_back({absl::StrCat("--", flag, " ", value), value.substr(0, equals),
                     equals != std::string::npos ? value.substr(equals + 1) : ""});
  }
  return files;
}

absl::Status FindOutputs(const Graph& graph, std::vector<NamedFile>& files) {
  for (NamedFile& file : files) {
    MF_ASSIGN_OR_RETURN(file.output, Annotate(OutputByName(graph, file.name), file.flag));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NamedFile>> FeedsFromFlags() {
  std::vector<NamedFile> feeds = NamedFiles("feed", absl::GetFlag(FLAGS_feed));
  for (const NamedFile& feed : feeds) {
    if (!feed.name.empty() && !feed.path.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(feed.flag, ": malformed; expected NAME=FILE.npy"));
  }
  return feeds;
}

absl::StatusOr<std::vector<Tensor>> ReadFeeds(const std::vector<NamedFile>& feeds) {
  std::vector<Tensor> values;
  for (const NamedFile& feed : feeds) {
    MF_ASSIGN_OR_RETURN(Tensor value,
                        Annotate(ReadNpy(feed.path), absl::StrCat("--feed ", feed.name)));
    if (value.dtype() != feed.output.dtype()) {
      return absl::InvalidArgumentError(absl::StrCat(feed.flag, ": wrong dtype; expected ",
                                                     DataTypeName(feed.output.dtype()), ", got ",
                                                     DataTypeName(value.dtype())));
    }
    values.push_back(std::move(value));
  }
  return values;
}

absl::Status LoadVariablesFromFlags(const StepSelection& step, Session& session) {
  const std::string path = absl::GetFlag(FLAGS_variables);
  if (path.empty()) return absl::OkStatus();
  std::set<std::string> required = VariablesReadBy(step);
  for (const VariableInfo& variable : session.layout().variables()) {
    if (variable.is_optimizer_state || variable.on_read) required.erase(variable.name);
  }
  const LoadOptions options = {.strict = !absl::GetFlag(FLAGS_partial_variables),
                               .required = std::move(required)};
  return LoadVariables(path, session, options).status();
}

}  // namespace mirrorflow
