// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/input_agreement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "distribute/strategy/input_offer.pb.h"
#include "framework/core/crc32c.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/data/batch_provider.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/status_proto.h"

namespace mirrorflow {
namespace {

using proto::InputOffer;

// Limits the serialised runs in an offer, because a message can have at most 64 KiB. The worker
// offers only the batches that fit.
constexpr size_t kMaxBytesOfRuns = size_t{16} << 10;

std::string TypeOfRow(const Tensor& component) {
  return absl::StrCat(DataTypeName(component.dtype()),
                      Shape(component.shape().dims().subspan(1)).ToString());
}

absl::Status Malformed() { return absl::InternalError("input: malformed message from a worker"); }

Failure At(size_t worker) { return Failure{.worker = static_cast<int>(worker)}; }

// Parses the messages of all workers.
absl::StatusOr<std::vector<InputOffer>> ParseAll(absl::Span<const std::string> messages) {
  std::vector<InputOffer> offers(messages.size());
  for (size_t w = 0; w < messages.size(); ++w) {
    if (!offers[w].ParseFromString(messages[w])) return Malformed();
    if (offers[w].input_case() == InputOffer::INPUT_NOT_SET) return Malformed();
    for (const InputOffer::Run& run : offers[w].ahead().runs()) {
      if (run.batches() <= 0 || run.rows() < 0) return Malformed();
    }
  }
  return offers;
}

// Returns whether the worker has a batch for the next step.
bool HasBatch(const InputOffer& offer) { return offer.ahead().runs_size() > 0; }

// Returns whether the offer determines the worker's input for the next step.
bool IsKnown(const InputOffer& offer) {
  return !offer.has_ahead() || HasBatch(offer) || offer.ahead().is_last() || offer.has_error();
}

// Returns the error that worker `own` has in place of its next batch or, if it has none, the first
// such error of another worker. Returns InvalidArgument if a worker uses an AutoShardPolicy that
// does not match `input`.
absl::Status Check(absl::Span<const InputOffer> offers, InputOffer::InputCase input, size_t own) {
  const auto error_of = [&](size_t w) {
    const bool is_due = offers[w].has_error() && !HasBatch(offers[w]);
    return is_due ? StatusFromProto(offers[w].error()) : absl::OkStatus();
  };
  MF_RETURN_IF_ERROR(error_of(own));
  for (size_t w = 0; w < offers.size(); ++w) {
    const absl::Status error = Annotate(error_of(w), absl::StrCat("worker ", w));
    MF_RETURN_IF_ERROR(WithFailure(error, At(w)));
    if (offers[w].input_case() == input) continue;
    const bool is_data = input == InputOffer::kFingerprint;
    return WithFailure(
        absl::InvalidArgumentError(absl::StrCat(
            "dataset: worker ", w, " uses a different AutoShardPolicy; expected ",
            is_data ? "DATA" : "FILE", " as on worker ", own, ", got ", is_data ? "FILE" : "DATA")),
        At(w));
  }
  return absl::OkStatus();
}

// Removes the next step's batch from the offer.
void TakeBatch(InputOffer* offer) {
  InputOffer::Run* const run = offer->mutable_ahead()->mutable_runs(0);
  run->set_batches(run->batches() - 1);
  if (run->batches() == 0) offer->mutable_ahead()->mutable_runs()->DeleteSubrange(0, 1);
}

// Returns a component without rows. `type` is the type of a row.
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

// Truncates the error's message so that the offer fits into an all-gather value.
absl::Status Shortened(const absl::Status& error) {
  constexpr size_t kMaxErrorBytes = size_t{16} << 10;
  if (error.message().size() <= kMaxErrorBytes) return error;
  absl::Status shortened(error.code(),
                         absl::StrCat(error.message().substr(0, kMaxErrorBytes), " …"));
  error.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    shortened.SetPayload(type, payload);
  });
  return shortened;
}

}  // namespace

InputAgreement::InputAgreement(Options options) : options_(std::move(options)) {}

InputAgreement::~InputAgreement() = default;

absl::StatusOr<std::vector<std::string>> InputAgreement::Exchange(std::string message) {
  absl::StatusOr<std::vector<std::string>> answers =
      options_.group->AllGather(absl::StrCat(options_.name, " ", messages_++), std::move(message),
                                MonotonicTime::Now() + options_.timeout);
  if (!absl::IsDeadlineExceeded(answers.status())) return answers;
  return Annotate(answers.status(), "dataset: not all workers have read it in time");
}

absl::Status InputAgreement::Compare(const absl::StatusOr<DatasetFingerprint>& own) {
  const std::string text = own.ok() ? own->Serialize() : "";
  InputOffer offer;
  offer.set_fingerprint(Crc32c(text));
  if (!own.ok()) *offer.mutable_error() = StatusToProto(Shortened(own.status()));
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> answers, Exchange(offer.SerializeAsString()));
  MF_ASSIGN_OR_RETURN(const std::vector<InputOffer> offers, ParseAll(answers));
  MF_RETURN_IF_ERROR(Check(offers, InputOffer::kFingerprint, options_.group->worker()));
  const auto is_same = [&](const InputOffer& other) {
    return other.fingerprint() == offers[0].fingerprint();
  };
  if (std::all_of(offers.begin(), offers.end(), is_same)) return absl::OkStatus();
  // The full fingerprints are longer, so they are exchanged only if their checksums differ.
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
  return WithFailure(absl::InvalidArgumentError(absl::StrCat(
                         "dataset: worker ", worker, " does not match worker ", other, " in its ",
                         what, "; expected ", expected, ", got ", got, "; ", hint)),
                     {.worker = worker});
}

bool InputAgreement::is_next_known() const {
  return !offers_.empty() && std::all_of(offers_.begin(), offers_.end(), IsKnown);
}

void InputAgreement::Offer(const FileBatches& files, const std::deque<SourceBatch>& ahead,
                           const absl::StatusOr<bool>& more) {
  InputOffer offer;
  InputOffer::Ahead& own = *offer.mutable_ahead();
  own.set_files(files.files);
  std::string last;
  size_t bytes = 0, offered = 0;
  for (const SourceBatch& batch : ahead) {
    InputOffer::Run run;
    run.set_rows(batch.components[0].shape().dim(0));
    for (const Tensor& t : batch.components) run.add_types(TypeOfRow(t));
    std::string text = run.SerializeAsString();
    if (offered == 0 || text != last) {
      bytes += text.size();
      if (offered > 0 && bytes > kMaxBytesOfRuns) break;
      *own.add_runs() = std::move(run);
      last = std::move(text);
    }
    InputOffer::Run& of_batch = *own.mutable_runs(own.runs_size() - 1);
    of_batch.set_batches(of_batch.batches() + 1);
    ++offered;
  }
  if (offered == ahead.size()) {
    own.set_is_last(more.ok() && !*more);
    if (!more.ok()) *offer.mutable_error() = StatusToProto(Shortened(more.status()));
  }
  drop_remainder_ = files.drop_remainder;
  // If no thread can be started, Await() runs the exchange.
  answers_ = std::async(
      std::launch::async | std::launch::deferred,
      [group = options_.group, name = absl::StrCat(options_.name, " ", messages_++),
       text = offer.SerializeAsString(), deadline = MonotonicTime::Now() + options_.timeout] {
        return group->AllGather(name, text, deadline);
      });
}

absl::StatusOr<bool> InputAgreement::Await(std::vector<Tensor>* components,
                                           std::vector<int64_t>* replica_rows) {
  if (!is_next_known()) {
    MF_ASSIGN_OR_RETURN(const std::vector<std::string> answers, answers_.get());
    MF_ASSIGN_OR_RETURN(offers_, ParseAll(answers));
    if (!is_next_known()) return Malformed();
  }
  const auto own = static_cast<size_t>(options_.group->worker());
  MF_RETURN_IF_ERROR(Check(offers_, InputOffer::kAhead, own));
  const InputOffer::Run* like = nullptr;  // the first worker's batch that has rows
  size_t like_worker = 0;
  bool any_ended = false;
  replica_rows->clear();
  for (size_t w = 0; w < offers_.size(); ++w) {
    const InputOffer::Ahead& offered = offers_[w].ahead();
    const auto differs = [&](absl::string_view what, absl::string_view expected, size_t of,
                             absl::string_view got) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dataset: AutoShardPolicy FILE: workers have different ", what, "; expected ", expected,
          " as on worker ", of, ", got ", got, " on worker ", w));
    };
    if (offered.files() != offers_[0].ahead().files()) {
      return WithFailure(differs("lists of files", offers_[0].ahead().files(), 0, offered.files()),
                         At(w));
    }
    const InputOffer::Run* const run = HasBatch(offers_[w]) ? &offered.runs(0) : nullptr;
    const int64_t rows = run == nullptr ? 0 : run->rows();
    any_ended = any_ended || rows == 0;
    if (rows > 0) {
      if (like == nullptr) {
        like = run;
        like_worker = w;
      }
      if (!std::equal(run->types().begin(), run->types().end(), like->types().begin(),
                      like->types().end())) {
        return WithFailure(differs("rows", absl::StrJoin(like->types(), " and "), like_worker,
                                   absl::StrJoin(run->types(), " and ")),
                           At(w));
      }
    }
    const int replicas = options_.replicas[w];
    for (int r = 0; r < replicas; ++r) {
      replica_rows->push_back(FirstRowOf(r + 1, rows, replicas) - FirstRowOf(r, rows, replicas));
    }
  }
  if (like == nullptr || (drop_remainder_ && any_ended)) {
    components->clear();
    return false;
  }
  if (components->empty()) {
    for (const std::string& type : like->types()) {
      MF_ASSIGN_OR_RETURN(components->emplace_back(), Empty(type));
    }
  }
  for (InputOffer& offer : offers_) {
    if (HasBatch(offer)) TakeBatch(&offer);
  }
  return true;
}

}  // namespace mirrorflow
