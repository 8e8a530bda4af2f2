// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/ucx/ucx_transport.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distribute/collective/ucx/ucx_api.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

// How long Finish polls before it sleeps until something arrives: a peer on a fast network answers
// in microseconds.
constexpr absl::Duration kSpin = absl::Microseconds(100);
constexpr absl::Duration kLongestSleep = absl::Milliseconds(50);

// A tag of UCX has 64 bits: the sender's rank, by which messages are matched, then the last bits of
// what both ranks must agree on.
constexpr int kRankBits = 16, kIncarnationBits = 8, kStepBits = 12, kSequenceBits = 12;
constexpr int kFingerprintBits = 64 - kRankBits - kIncarnationBits - kStepBits - kSequenceBits;
constexpr int kSequenceShift = kFingerprintBits, kStepShift = kSequenceShift + kSequenceBits;
constexpr int kIncarnationShift = kStepShift + kStepBits, kRankShift = 64 - kRankBits;
constexpr ucp_tag_t kRankMask = ~ucp_tag_t{0} << kRankShift;

constexpr uint64_t LastBits(uint64_t value, int bits) {
  return value & ((uint64_t{1} << bits) - 1);
}

ucp_tag_t Pack(int from_rank, uint64_t incarnation, const MessageTag& tag) {
  return static_cast<ucp_tag_t>(from_rank) << kRankShift |
         LastBits(incarnation, kIncarnationBits) << kIncarnationShift |
         LastBits(tag.step, kStepBits) << kStepShift |
         LastBits(tag.sequence, kSequenceBits) << kSequenceShift |
         LastBits(tag.fingerprint, kFingerprintBits);
}

// The number closest to `near` whose last bits are `last`.
uint64_t Extend(uint64_t last, int bits, uint64_t near) {
  const uint64_t ahead = LastBits(last - near, bits);
  const bool is_behind = ahead >> (bits - 1) != 0 && near + ahead >= uint64_t{1} << bits;
  return near + ahead - (is_behind ? uint64_t{1} << bits : 0);
}

// The tag that was packed, completed by the expected one.
MessageTag Unpack(ucp_tag_t packed, const MessageTag& expected) {
  const uint64_t fingerprint = LastBits(packed, kFingerprintBits);
  const bool same = fingerprint == LastBits(expected.fingerprint, kFingerprintBits);
  return {.step = Extend(LastBits(packed >> kStepShift, kStepBits), kStepBits, expected.step),
          .sequence = Extend(LastBits(packed >> kSequenceShift, kSequenceBits), kSequenceBits,
                             expected.sequence),
          .fingerprint = same ? expected.fingerprint : fingerprint};
}

// UCX ignores devices that do not exist or are down.
absl::Status CheckDevice(const std::string& device) {
  const std::string name = device.substr(0, device.find(':'));  // without InfiniBand's port
  std::ifstream state_file(absl::StrCat("/sys/class/net/", name, "/operstate"));
  std::string state;
  if (state_file >> state && state == "down") {
    return absl::UnavailableError(
        absl::StrCat("UCX: network device '", Printable(device), "' is down; expected it up"));
  }
  for (const char* folder : {"/sys/class/net/", "/sys/class/infiniband/"}) {
    if (name.empty() || access(absl::StrCat(folder, name).c_str(), F_OK) == 0) {
      return absl::OkStatus();
    }
  }
  return absl::UnavailableError(
      absl::StrCat("UCX: no network device '", Printable(device), "'; expected one of this host"));
}

// UCX aborts the process if it finds no file descriptor for what it needs on its own.
absl::Status CheckDescriptors() {
  constexpr size_t kNeeded = 32;
  std::vector<int> free;
  while (free.size() < kNeeded) {
    const int fd = eventfd(0, EFD_CLOEXEC);
    if (fd < 0) break;
    free.push_back(fd);
  }
  for (const int fd : free) close(fd);
  if (free.size() == kNeeded) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("UCX: too few file descriptors; expected ",
                                                   kNeeded, " free ones, got ", free.size(),
                                                   "; `ulimit -n` sets their number"));
}

std::vector<std::string> EntriesOf(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

// UCX knows the RDMA device behind a network device by its own name: `mlx5_0:1` for `ib0`.
std::string WithRdmaDevices(const std::string& device) {
  std::string devices = device;
  for (const std::string& rdma :
       EntriesOf(absl::StrCat("/sys/class/net/", device, "/device/infiniband"))) {
    for (const std::string& port :
         EntriesOf(absl::StrCat("/sys/class/infiniband/", rdma, "/ports"))) {
      absl::StrAppend(&devices, ",", rdma, ":", port);
    }
  }
  return devices;
}

class Ucx final : public UcxTransport {
 public:
  Ucx(const UcxApi& api, const Options& options) : api_(api), options_(options) {}

  ~Ucx() override {
    CancelAll();
    if (worker_ != nullptr) api_.ucp_worker_destroy(worker_);
    if (context_ != nullptr) api_.ucp_cleanup(context_);
  }

  absl::Status Initialize() {
    MF_RETURN_IF_ERROR(CheckDevice(options_.device));
    MF_RETURN_IF_ERROR(CheckDescriptors());
    ucp_config_t* config = nullptr;
    if (const ucs_status_t status = api_.ucp_config_read(nullptr, nullptr, &config)) {
      return UcxError("cannot read its configuration", status);
    }
    // Ranks that share memory are in one domain and do not come here.
    api_.ucp_config_modify(config, "TLS", "^sm");
    if (!options_.device.empty()) {
      api_.ucp_config_modify(config, "NET_DEVICES", WithRdmaDevices(options_.device).c_str());
    }
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
    params.name = "mirrorflow";
    const ucs_status_t made =
        api_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
    api_.ucp_config_release(config);
    if (made != UCS_OK) {
      context_ = nullptr;
      return UcxError("cannot be initialised", made);
    }
    ucp_worker_params_t worker = {};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    if (const ucs_status_t status = api_.ucp_worker_create(context_, &worker, &worker_)) {
      worker_ = nullptr;
      return UcxError("cannot create a worker", status);
    }
    if (const ucs_status_t status = api_.ucp_worker_get_efd(worker_, &event_fd_)) {
      return UcxError("has no file descriptor to wait for events", status);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Address() const override {
    ucp_address_t* address = nullptr;
    size_t size = 0;
    if (const ucs_status_t status = api_.ucp_worker_get_address(worker_, &address, &size)) {
      return UcxError("has no address", status);
    }
    std::string text(reinterpret_cast<const char*>(address), size);
    api_.ucp_worker_release_address(worker_, address);
    return text;
  }

  absl::Status Connect(int rank, absl::string_view address) override {
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    // The transfers with the peer fail as well, with the status.
    params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
    ucp_ep_h ep = nullptr;
    if (const ucs_status_t status = api_.ucp_ep_create(worker_, &params, &ep)) {
      return WithFailure(UcxError(absl::StrCat("cannot connect rank ", rank), status),
                         {.rank = rank});
    }
    endpoints_[rank] = ep;
    return absl::OkStatus();
  }

  absl::Status StartSend(int to_rank, const MessageTag& tag,
                         absl::Span<const std::byte> bytes) override {
    MF_RETURN_IF_ERROR(Failure());
    const auto ep = endpoints_.find(to_rank);
    if (ep == endpoints_.end()) {
      return absl::InternalError(absl::StrCat("UCX: rank ", to_rank, " is not connected"));
    }
    const ucp_request_param_t params = {};
    void* const request =
        api_.ucp_tag_send_nbx(ep->second, bytes.data(), bytes.size(),
                              Pack(options_.rank, options_.incarnation, tag), &params);
    if (request == nullptr) return absl::OkStatus();  // sent already
    transfers_.push_back({.peer = to_rank, .request = request, .size = bytes.size()});
    return absl::OkStatus();
  }

  absl::Status StartReceive(int from_rank, const MessageTag& tag,
                            absl::Span<std::byte> bytes) override {
    MF_RETURN_IF_ERROR(Failure());
    Transfer& transfer = transfers_.emplace_back();
    transfer.is_receive = true;
    transfer.peer = from_rank;
    transfer.tag = tag;
    transfer.size = bytes.size();
    ucp_request_param_t params = {};
    // The sizes are compared when the message is here, so one that is too long is received in part.
    params.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    params.cb.recv = [](void*, ucs_status_t status, const ucp_tag_recv_info_t* info, void* data) {
      Transfer& received = *static_cast<Transfer*>(data);
      received.status = status;
      received.info = *info;
    };
    params.user_data = &transfer;
    transfer.request =
        api_.ucp_tag_recv_nbx(worker_, bytes.data(), bytes.size(),
                              Pack(from_rank, options_.incarnation, tag), kRankMask, &params);
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    absl::Status status = WaitForAll();
    if (status.ok()) {
      for (const Transfer& transfer : transfers_) {
        if (transfer.is_receive) status = CheckMessage(transfer);
        if (!status.ok()) break;
      }
    }
    if (!status.ok()) {
      Abort(status);
      CancelAll();
      status = Failure();
    }
    transfers_.clear();
    return status;
  }

  void Abort(const absl::Status& why) override {
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (!failure_.ok()) return;
      failure_ = why;
    }
    failed_ = true;
    api_.ucp_worker_signal(worker_);
  }

 private:
  struct Transfer {
    int peer = 0;
    void* request = nullptr;  // null if it has ended
    size_t size = 0;          // expected
    bool is_receive = false;
    // The rest is for receives.
    MessageTag tag;  // expected
    ucs_status_t status = UCS_OK;
    ucp_tag_recv_info_t info = {};
  };

  absl::Status UcxError(absl::string_view what, ucs_status_t status) const {
    return absl::UnavailableError(
        absl::StrCat("UCX: ", what, ": ", api_.ucs_status_string(status)));
  }

  absl::Status Failure() const {
    if (!failed_) return absl::OkStatus();
    std::lock_guard<std::mutex> lock(mu_);
    return failure_;
  }

  // Waits until all transfers have ended, one fails, Abort() or the timeout.
  absl::Status WaitForAll() {
    const absl::Time start = absl::Now();
    const absl::Time deadline = start + options_.timeout;
    for (;;) {
      MF_RETURN_IF_ERROR(Failure());
      const bool progressed = api_.ucp_worker_progress(worker_) != 0;
      MF_ASSIGN_OR_RETURN(const Transfer* const pending, FirstPending());
      if (pending == nullptr) return absl::OkStatus();
      const absl::Time now = absl::Now();
      if (now >= deadline) return TimedOut(*pending);
      if (!progressed && now - start > kSpin) Sleep(deadline - now);
    }
  }

  // Returns the first transfer that has not ended; null if all have.
  absl::StatusOr<const Transfer*> FirstPending() {
    for (Transfer& transfer : transfers_) {
      if (transfer.request == nullptr) continue;
      if (UCS_PTR_IS_ERR(transfer.request)) {
        return Lost(transfer, UCS_PTR_STATUS(std::exchange(transfer.request, nullptr)));
      }
      const ucs_status_t status = api_.ucp_request_check_status(transfer.request);
      if (status == UCS_INPROGRESS) return &transfer;
      api_.ucp_request_free(std::exchange(transfer.request, nullptr));
      // If a message is too long, its start has been received.
      if (status != UCS_OK && status != UCS_ERR_MESSAGE_TRUNCATED) return Lost(transfer, status);
    }
    return nullptr;
  }

  // Sleeps until an event, a signal or the timeout.
  void Sleep(absl::Duration timeout) {
    if (api_.ucp_worker_arm(worker_) != UCS_OK) return;  // there are events already
    pollfd event = {.fd = event_fd_, .events = POLLIN, .revents = 0};
    poll(&event, 1,
         static_cast<int>(absl::ToInt64Milliseconds(std::min(timeout, kLongestSleep))) + 1);
  }

  void CancelAll() {
    for (Transfer& transfer : transfers_) {
      if (transfer.request == nullptr || UCS_PTR_IS_ERR(transfer.request)) continue;
      api_.ucp_request_cancel(worker_, transfer.request);
    }
    // Sends cannot always be cancelled; closing the connections ends them.
    for (const auto& [rank, ep] : std::exchange(endpoints_, {})) Close(ep);
    for (Transfer& transfer : transfers_) {
      if (transfer.request != nullptr && !UCS_PTR_IS_ERR(transfer.request)) Drain(transfer.request);
      transfer.request = nullptr;
    }
  }

  void Close(ucp_ep_h ep) {
    ucp_request_param_t params = {};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;
    void* const request = api_.ucp_ep_close_nbx(ep, &params);
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) Drain(request);
  }

  void Drain(void* request) {
    while (api_.ucp_request_check_status(request) == UCS_INPROGRESS) {
      api_.ucp_worker_progress(worker_);
    }
    api_.ucp_request_free(request);
  }

  absl::Status CheckMessage(const Transfer& transfer) const {
    const ucp_tag_t expected = Pack(transfer.peer, options_.incarnation, transfer.tag);
    const ucp_tag_t got = transfer.info.sender_tag;
    if (got == expected && transfer.info.length == transfer.size && transfer.status == UCS_OK) {
      return absl::OkStatus();
    }
    if (LastBits(got >> kIncarnationShift, kIncarnationBits) !=
        LastBits(options_.incarnation, kIncarnationBits)) {
      return WithFailure(
          absl::AbortedError(absl::StrCat("a message of rank ", transfer.peer,
                                          " belongs to another incarnation of its workers; "
                                          "expected incarnation ",
                                          options_.incarnation)),
          {.rank = transfer.peer});
    }
    return UnexpectedMessage(transfer.peer, transfer.tag, transfer.size, Unpack(got, transfer.tag),
                             transfer.info.length);
  }

  absl::Status TimedOut(const Transfer& transfer) const {
    return WithFailure(
        absl::DeadlineExceededError(absl::StrCat(
            "rank ", options_.rank, " timed out after ", absl::FormatDuration(options_.timeout),
            "; expected ", transfer.size, " bytes from rank ", transfer.peer, ", got none")),
        {.rank = transfer.peer});
  }

  absl::Status Lost(const Transfer& transfer, ucs_status_t status) const {
    return WithFailure(UcxError(absl::StrCat("the connection of rank ", options_.rank, " to rank ",
                                             transfer.peer, " has ended"),
                                status),
                       {.rank = transfer.peer});
  }

  const UcxApi& api_;
  const Options options_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::map<int, ucp_ep_h> endpoints_;  // by rank
  std::deque<Transfer> transfers_;     // since the last Finish; UCX holds the addresses of receives
  std::atomic<bool> failed_{false};
  mutable std::mutex mu_;
  absl::Status failure_;  // guarded by mu_
};

}  // namespace

absl::StatusOr<std::unique_ptr<UcxTransport>> UcxTransport::Create(const Options& options) {
  if (options.rank < 0 || options.rank >= 1 << kRankBits) {
    return absl::InvalidArgumentError(absl::StrCat("UCX: rank out of range; expected 0 to ",
                                                   (1 << kRankBits) - 1, ", got ", options.rank));
  }
  MF_ASSIGN_OR_RETURN(const UcxApi* const api, LoadUcx());
  auto transport = std::make_unique<Ucx>(*api, options);
  MF_RETURN_IF_ERROR(transport->Initialize());
  return transport;
}

}  // namespace mirrorflow
