// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/input_agreement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/core/crc32c.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/data/batch_provider.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/status_proto.h"

namespace mirrorflow {
namespace {

// The first message of a worker is a text whose lines are `error` and the error; `data` and the
// checksum of its fingerprint; or `rows`, the files, the number of rows and, if there are any, the
// type of a row of each component, such as `float[28,28]`.
constexpr absl::string_view kError = "error", kData = "data", kRows = "rows";

struct Offered {
  absl::Status error;
  std::string kind;
  std::string data;
  std::string files;
  int64_t rows = 0;
  std::vector<std::string> types;
};

std::string TypeOfRow(const Tensor& component) {
  return absl::StrCat(DataTypeName(component.dtype()),
                      Shape(component.shape().dims().subspan(1)).ToString());
}

absl::Status Malformed() { return absl::InternalError("input: malformed message of a worker"); }

absl::StatusOr<Offered> Parse(absl::string_view text) {
  Offered offered;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('\n', 1));
  offered.kind = std::string(parts.first);
  if (parts.first == kError) {
    proto::Status error;
    if (!error.ParseFromString(std::string(parts.second))) return Malformed();
    offered.error = StatusFromProto(error);
    return offered;
  }
  if (parts.first == kData) {
    offered.data = std::string(parts.second);
    return offered;
  }
  offered.types = absl::StrSplit(parts.second, '\n');
  if (parts.first != kRows || offered.types.size() < 2 ||
      !absl::SimpleAtoi(offered.types[1], &offered.rows)) {
    return Malformed();
  }
  offered.files = offered.types[0];
  offered.types.erase(offered.types.begin(), offered.types.begin() + 2);
  return offered;
}

Failure At(size_t worker) { return Failure{.worker = static_cast<int>(worker)}; }

std::string ErrorMessage(const absl::Status& error) {
  return absl::StrCat(kError, "\n", StatusToProto(error).SerializeAsString());
}

// Parses the messages of all workers, which must be of this kind. Returns the error of worker `own`
// or, if it has none, of the first other one.
absl::StatusOr<std::vector<Offered>> ParseAll(absl::Span<const std::string> messages,
                                              absl::string_view kind, size_t own) {
  std::vector<Offered> workers;
  for (const std::string& message : messages) {
    MF_ASSIGN_OR_RETURN(workers.emplace_back(), Parse(message));
  }
  MF_RETURN_IF_ERROR(workers[own].error);
  for (size_t w = 0; w < workers.size(); ++w) {
    const absl::Status error = Annotate(workers[w].error, absl::StrCat("worker ", w));
    MF_RETURN_IF_ERROR(WithFailure(error, At(w)));
    if (workers[w].kind == kind) continue;
    return WithFailure(absl::InvalidArgumentError(absl::StrCat(
                           "dataset: worker ", w, " uses another AutoShardPolicy; expected ",
                           kind == kData ? "DATA" : "FILE", " as on worker ", own, ", got ",
                           kind == kData ? "FILE" : "DATA")),
                       At(w));
  }
  return workers;
}

// A component without rows, from the type of its rows.
absl::StatusOr<Tensor> Empty(absl::string_view type) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(type, absl::MaxSplits('[', 1));
  MF_ASSIGN_OR_RETURN(const DataType dtype, ParseDataType(parts.first));
  std::vector<int64_t> dims = {0};
  for (const absl::string_view text : absl::StrSplit(parts.second, absl::ByAnyChar(",]"))) {
    int64_t dim = 0;
    if (text.empty()) continue;
    if (!absl::SimpleAtoi(text, &dim)) return Malformed();
    dims.push_back(dim);
  }
  return Tensor::Allocate(dtype, Shape(dims));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> InputAgreement::Exchange(std::string message) {
  absl::StatusOr<std::vector<std::string>> answers =
      options_.group->AllGather(absl::StrCat(options_.name, " ", messages_++), std::move(message),
                                MonotonicTime::Now() + options_.timeout);
  if (!absl::IsDeadlineExceeded(answers.status())) return answers;
  return Annotate(answers.status(), "dataset: expected all workers to read it");
}

absl::Status InputAgreement::Compare(const absl::StatusOr<DatasetFingerprint>& own) {
  const std::string text = own.ok() ? own->Serialize() : "";
  MF_ASSIGN_OR_RETURN(
      const std::vector<std::string> answers,
      Exchange(own.ok() ? absl::StrCat(kData, "\n", Crc32c(text)) : ErrorMessage(own.status())));
  MF_ASSIGN_OR_RETURN(const std::vector<Offered> workers,
                      ParseAll(answers, kData, options_.group->worker()));
  const auto is_same = [&](const Offered& worker) { return worker.data == workers[0].data; };
  if (std::all_of(workers.begin(), workers.end(), is_same)) return absl::OkStatus();
  // The whole fingerprints are longer, so they are sent only now.
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> texts, Exchange(text));
  std::vector<DatasetFingerprint> fingerprints;
  for (const std::string& of_worker : texts) {
    MF_ASSIGN_OR_RETURN(fingerprints.emplace_back(), DatasetFingerprint::Parse(of_worker));
  }
  const std::optional<DatasetFingerprint::Difference> difference =
      DatasetFingerprint::FindDifference(fingerprints);
  if (!difference)
    return absl::InternalError("dataset: equal fingerprints have different checksums");
  const auto& [worker, other, what, expected, got, hint] = *difference;
  return WithFailure(
      absl::InvalidArgumentError(absl::StrCat("dataset: the ", what, " of worker ", worker,
                                              " differs from that of worker ", other, "; expected ",
                                              expected, ", got ", got, "; ", hint)),
      {.worker = worker});
}

void InputAgreement::Offer(const FileBatches& files, const absl::Status& status,
                           absl::Span<const Tensor> components) {
  std::string text;
  if (!status.ok()) {
    text = ErrorMessage(status);
  } else {
    text = absl::StrCat(kRows, "\n", files.files, "\n",
                        components.empty() ? 0 : components[0].shape().dim(0));
    for (const Tensor& t : components) absl::StrAppend(&text, "\n", TypeOfRow(t));
  }
  drop_remainder_ = files.drop_remainder;
  // Without a thread, Await() does it.
  answers_ =
      std::async(std::launch::async | std::launch::deferred,
                 [group = options_.group, name = absl::StrCat(options_.name, " ", messages_++),
                  text = std::move(text), deadline = MonotonicTime::Now() + options_.timeout] {
                   return group->AllGather(name, text, deadline);
                 });
}

absl::StatusOr<bool> InputAgreement::Await(std::vector<Tensor>* components,
                                           std::vector<int64_t>* replica_rows) {
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> answers, answers_.get());
  const auto own = static_cast<size_t>(options_.group->worker());
  MF_ASSIGN_OR_RETURN(const std::vector<Offered> workers, ParseAll(answers, kRows, own));
  const Offered* like = nullptr;  // the first with rows
  bool any_ended = false;
  replica_rows->clear();
  for (size_t w = 0; w < workers.size(); ++w) {
    const Offered& offered = workers[w];
    const auto differs = [&](absl::string_view what, absl::string_view expected, size_t of,
                             absl::string_view got) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dataset: AutoShardPolicy FILE: workers have different ", what, "; expected ", expected,
          " as on worker ", of, ", got ", got, " on worker ", w));
    };
    if (offered.files != workers[0].files) {
      return WithFailure(differs("lists of files", workers[0].files, 0, offered.files), At(w));
    }
    any_ended = any_ended || offered.rows == 0;
    if (offered.rows > 0) {
      if (like == nullptr) like = &offered;
      if (offered.types != like->types) {
        return WithFailure(differs("rows", absl::StrJoin(like->types, " and "),
                                   like - workers.data(), absl::StrJoin(offered.types, " and ")),
                           At(w));
      }
    }
    const int replicas = options_.replicas[w];
    for (int r = 0; r < replicas; ++r) {
      replica_rows->push_back(FirstRowOf(r + 1, offered.rows, replicas) -
                              FirstRowOf(r, offered.rows, replicas));
    }
  }
  if (like == nullptr || (drop_remainder_ && any_ended)) {
    components->clear();
    return false;
  }
  for (size_t c = 0; workers[own].rows == 0 && c < like->types.size(); ++c) {
    MF_ASSIGN_OR_RETURN(components->emplace_back(), Empty(like->types[c]));
  }
  return true;
}

}  // namespace mirrorflow
