// SPDX-License-Identifier: Apache-2.0
#include "tools/command_line.h"

#include <algorithm>
#include <cstdio>

#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/core/status.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {
namespace {

absl::Status UnknownFlag(absl::string_view name) {
  std::vector<std::string> names;
  for (const auto& entry : absl::GetAllFlags()) names.emplace_back(entry.first);
  std::sort(names.begin(), names.end());
  const std::string nearest = NearestName(name, names);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag --", name,
                   nearest.empty() ? "" : absl::StrCat("; did you mean --", nearest, "?")));
}

absl::Status SetFlag(absl::CommandLineFlag& flag, absl::string_view value) {
  std::string error;
  if (flag.ParseFrom(value, &error)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("flag --", flag.Name(), ": illegal value '", value,
                                                 "'", error.empty() ? "" : ": ", error));
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, char** argv) {
  CommandLine line;
  bool flags_ended = false;
  for (int i = 1; i < argc; ++i) {
    absl::string_view arg = argv[i];
    if (flags_ended || !absl::StartsWith(arg, "-") || arg == "-") {
      line.positional.emplace_back(arg);
      continue;
    }
    if (arg == "--") {
      flags_ended = true;
      continue;
    }
    if (!absl::ConsumePrefix(&arg, "--")) absl::ConsumePrefix(&arg, "-");
    const size_t equals = arg.find('=');
    const absl::string_view name = arg.substr(0, equals);
    if (name == "help") {
      line.help = true;
      continue;
    }
    if (absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name)) {
      if (equals != absl::string_view::npos) {
        MF_RETURN_IF_ERROR(SetFlag(*flag, arg.substr(equals + 1)));
      } else if (flag->IsOfType<bool>()) {
        MF_RETURN_IF_ERROR(SetFlag(*flag, "true"));
      } else if (i + 1 < argc) {
        MF_RETURN_IF_ERROR(SetFlag(*flag, argv[++i]));
      } else {
        return absl::InvalidArgumentError(absl::StrCat("flag --", name, " needs a value"));
      }
      continue;
    }
    absl::string_view positive = name;
    if (equals == absl::string_view::npos && absl::ConsumePrefix(&positive, "no")) {
      absl::CommandLineFlag* flag = absl::FindCommandLineFlag(positive);
      if (flag != nullptr && flag->IsOfType<bool>()) {
        MF_RETURN_IF_ERROR(SetFlag(*flag, "false"));
        continue;
      }
    }
    return UnknownFlag(name);
  }
  return line;
}

std::string FlagHelp(absl::string_view file) {
  std::vector<absl::CommandLineFlag*> flags;
  for (const auto& entry : absl::GetAllFlags()) {
    if (absl::StrContains(entry.second->Filename(), file)) flags.push_back(entry.second);
  }
  std::sort(flags.begin(), flags.end(), [](auto* a, auto* b) { return a->Name() < b->Name(); });
  std::string text;
  for (absl::CommandLineFlag* flag : flags) {
    absl::StrAppend(&text, "  --", flag->Name(), "=", flag->DefaultValue(), "\n      ",
                    flag->Help(), "\n");
  }
  return text;
}

int ExitWithError(const absl::Status& status, ExitCode code) {
  std::fprintf(stderr, "ERROR %s\n", status.ToString().c_str());
  return code;
}

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kResourceExhausted:
      return kExitResources;
    case absl::StatusCode::kInternal:
      return kExitInternal;
    default:
      return kExitBadInput;
  }
}

}  // namespace mirrorflow
