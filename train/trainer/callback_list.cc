// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/callback_list.h"

#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <typeinfo>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr char kStates[] = "states/", kStopped[] = "stopped", kStoppedBy[] = "stopped_by";

std::string ClassName(const Callback& callback) {
  const char* const mangled = typeid(callback).name();
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  return name == nullptr ? mangled : name.get();
}

// Returns the callback's key, escaped: keys can contain paths with arbitrary bytes. In a
// checkpoint, a slash separates a key from its entries' names, and a number sign separates it from
// its number.
std::string KeyOf(const Callback& callback) {
  std::string key = callback.state_key();
  if (key.empty()) key = ClassName(callback);
  return absl::StrReplaceAll(absl::CEscape(key), {{"/", "\\x2f"}, {"#", "\\x23"}});
}

}  // namespace

absl::StatusOr<CallbackList> CallbackList::Create(absl::Span<Callback* const> callbacks) {
  CallbackList list;
  std::map<std::string, int> counts;
  for (size_t i = 0; i < callbacks.size(); ++i) {
    if (callbacks[i] == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("callbacks[", i, "]: expected a callback, got null"));
    }
    std::string key = KeyOf(*callbacks[i]);
    const int count = ++counts[key];
    if (count > 1) absl::StrAppend(&key, "#", count);
    list.entries_.push_back({callbacks[i], std::move(key)});
  }
  return list;
}

absl::Status CallbackList::Call(Event event, TrainingState& state) {
  for (const auto& [callback, key] : entries_) {
    const bool was_stopped = state.stopped.has_value();
    MF_RETURN_IF_ERROR((callback->*event)(state));
    if (!was_stopped && state.stopped) stopped_by_ = key;
  }
  return absl::OkStatus();
}

void CallbackList::OnException(TrainingState& state, const absl::Status& why) {
  for (const Entry& entry : entries_) entry.callback->OnException(state, why);
}

absl::StatusOr<StateDict> CallbackList::SaveState(TrainingState& state) const {
  StateDict saved;
  for (const auto& [callback, key] : entries_) {
    StateDict own;
    MF_RETURN_IF_ERROR(callback->SaveState(state, own));
    saved.Merge(absl::StrCat(kStates, key, "/"), own);
  }
  if (state.stopped) {
    saved.Set(kStopped, *state.stopped);
    saved.Set(kStoppedBy, stopped_by_);
  }
  return saved;
}

absl::Status CallbackList::LoadState(TrainingState& state, const StateDict& saved) {
  std::string stopped, stopped_by;
  if (saved.Has(kStopped)) {
    MF_RETURN_IF_ERROR(saved.Get(kStopped, &stopped));
    MF_RETURN_IF_ERROR(saved.Get(kStoppedBy, &stopped_by));
  }
  const StateDict states = saved.WithPrefix(kStates);
  std::optional<std::string> why = std::move(state.stopped);
  for (const auto& [callback, key] : entries_) {
    state.stopped.reset();
    if (key == stopped_by) state.stopped = stopped;
    if (const StateDict own = states.WithPrefix(absl::StrCat(key, "/")); !own.empty()) {
      MF_RETURN_IF_ERROR(Annotate(callback->LoadState(state, own), absl::StrCat("callback ", key)));
    }
    if (!state.stopped) continue;
    why = std::move(state.stopped);
    stopped_by_ = key;
  }
  state.stopped = std::move(why);
  return absl::OkStatus();
}

std::vector<std::string> CallbackList::UnusedKeys(const StateDict& saved) const {
  const StateDict states = saved.WithPrefix(kStates);
  std::set<std::string> keys;
  const auto add = [&](const std::string& name) { keys.insert(name.substr(0, name.find('/'))); };
  for (const auto& [name, value] : states.values()) add(name);
  for (const auto& [name, value] : states.tensors()) add(name);
  for (const Entry& entry : entries_) keys.erase(entry.key);
  return {keys.begin(), keys.end()};
}

}  // namespace mirrorflow
