// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/ucx/ucx_transport.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/collective/ucx/ucx_api.h"
#include "framework/core/descriptors.h"
#include "framework/core/mutex.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

// A UCX tag has 64 bits. Messages are matched by the sender's rank, the low bits of the
// collective's number, and the part. The low bits of the other fields must also agree.
constexpr int kRankBits = 14, kSequenceBits = 10, kPartBits = 16;
constexpr int kIncarnationBits = 6, kStepBits = 8, kFingerprintBits = 10;
constexpr int kStepShift = kFingerprintBits, kIncarnationShift = kStepShift + kStepBits;
constexpr int kPartShift = kIncarnationShift + kIncarnationBits;
constexpr int kSequenceShift = kPartShift + kPartBits, kRankShift = kSequenceShift + kSequenceBits;
static_assert(kRankShift + kRankBits == 64);
constexpr ucp_tag_t kMatched = ~ucp_tag_t{0} << kPartShift;

constexpr uint64_t LastBits(uint64_t value, int bits) {
  return value & ((uint64_t{1} << bits) - 1);
}

ucp_tag_t Pack(int from_rank, uint64_t incarnation, const MessageTag& tag) {
  return static_cast<ucp_tag_t>(from_rank) << kRankShift |
         LastBits(tag.sequence, kSequenceBits) << kSequenceShift |
         static_cast<ucp_tag_t>(tag.part) << kPartShift |
         LastBits(incarnation, kIncarnationBits) << kIncarnationShift |
         LastBits(tag.step, kStepBits) << kStepShift | LastBits(tag.fingerprint, kFingerprintBits);
}

// Returns the number closest to `near` whose low bits are `last`.
uint64_t Extend(uint64_t last, int bits, uint64_t near) {
  const uint64_t ahead = LastBits(last - near, bits);
  const bool is_behind = ahead >> (bits - 1) != 0 && near + ahead >= uint64_t{1} << bits;
  return near + ahead - (is_behind ? uint64_t{1} << bits : 0);
}

// Unpacks a tag that matches `expected`. Takes the missing high bits from `expected`.
MessageTag Unpack(ucp_tag_t packed, const MessageTag& expected) {
  const uint64_t fingerprint = LastBits(packed, kFingerprintBits);
  const bool same = fingerprint == LastBits(expected.fingerprint, kFingerprintBits);
  return {.step = Extend(LastBits(packed >> kStepShift, kStepBits), kStepBits, expected.step),
          .sequence = expected.sequence,
          .fingerprint = same ? expected.fingerprint : fingerprint,
          .part = expected.part};
}

// Checks the device because UCX silently ignores devices that do not exist or are down.
absl::Status CheckDevice(const std::string& device) {
  const std::string name = device.substr(0, device.find(':'));  // without InfiniBand's port
  std::ifstream state_file(absl::StrCat("/sys/class/net/", name, "/operstate"));
  std::string state;
  if (state_file >> state && state == "down") {
    return absl::UnavailableError(absl::StrCat("UCX: network device '", Printable(device),
                                               "' is down; expected a device that is up"));
  }
  for (const char* folder : {"/sys/class/net/", "/sys/class/infiniband/"}) {
    if (name.empty() || access(absl::StrCat(folder, name).c_str(), F_OK) == 0) {
      return absl::OkStatus();
    }
  }
  return absl::UnavailableError(
      absl::StrCat("UCX: this host has no network device '", Printable(device), "'"));
}

// How many file descriptors UCX needs internally. It aborts the process if it cannot get one.
constexpr int kDescriptors = 32;

std::vector<std::string> EntriesOf(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

// Adds the RDMA ports behind a network device, because UCX uses separate names for them: `mlx5_0:1`
// for `ib0`.
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
    MF_RETURN_IF_ERROR(EnsureDescriptors("UCX", kDescriptors));
    ucp_config_t* config = nullptr;
    if (const ucs_status_t status = api_.ucp_config_read(nullptr, nullptr, &config)) {
      return UcxError("cannot read its configuration", status);
    }
    // Ranks that share memory are in one domain and do not use this transport.
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
      return UcxError("cannot get a file descriptor for events", status);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Address() const override {
    ucp_address_t* address = nullptr;
    size_t size = 0;
    if (const ucs_status_t status = api_.ucp_worker_get_address(worker_, &address, &size)) {
      return UcxError("cannot get the worker's address", status);
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
    // No handling is needed: the transfers with the peer fail with the same status.
    params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
    ucp_ep_h ep = nullptr;
    if (const ucs_status_t status = api_.ucp_ep_create(worker_, &params, &ep)) {
      return WithFailure(UcxError(absl::StrCat("cannot connect to rank ", rank), status),
                         {.rank = rank});
    }
    endpoints_[rank] = ep;
    return absl::OkStatus();
  }

  absl::Status StartSend(const Transfer& transfer, absl::Span<const std::byte> bytes) override {
    MF_RETURN_IF_ERROR(Failure());
    MF_RETURN_IF_ERROR(CheckPart(transfer.tag));
    MF_ASSIGN_OR_RETURN(const ucp_ep_h ep, EndpointOf(transfer.peer));
    const ucp_request_param_t params = {};
    void* const request =
        api_.ucp_tag_send_nbx(ep, bytes.data(), bytes.size(),
                              Pack(options_.rank, options_.incarnation, transfer.tag), &params);
    if (request == nullptr) return absl::OkStatus();  // already sent
    ++*transfer.unfinished;
    flights_.push_back({.transfer = transfer, .request = request, .size = bytes.size()});
    return absl::OkStatus();
  }

  absl::Status StartReceive(const Transfer& transfer, absl::Span<std::byte> bytes) override {
    MF_RETURN_IF_ERROR(Failure());
    MF_RETURN_IF_ERROR(CheckPart(transfer.tag));
    MF_RETURN_IF_ERROR(EndpointOf(transfer.peer).status());
    ++*transfer.unfinished;
    Flight& flight = flights_.emplace_back();
    flight = {.transfer = transfer, .size = bytes.size(), .is_receive = true};
    ucp_request_param_t params = {};
    // Sizes are compared once the message has arrived; a message that is too long is truncated.
    params.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    params.cb.recv = [](void*, ucs_status_t status, const ucp_tag_recv_info_t* info, void* data) {
      Flight& received = *static_cast<Flight*>(data);
      received.status = status;
      received.info = *info;
    };
    params.user_data = &flight;
    flight.request = api_.ucp_tag_recv_nbx(worker_, bytes.data(), bytes.size(),
                                           Pack(transfer.peer, options_.incarnation, transfer.tag),
                                           kMatched, &params);
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Progress() override {
    if (failed_) {
      CancelAll();  // no memory is accessed after this
      return Failure();
    }
    bool moved = api_.ucp_worker_progress(worker_) != 0;
    for (auto flight = flights_.begin(); flight != flights_.end();) {
      const absl::StatusOr<bool> ended = HasEnded(*flight);
      if (!ended.ok()) {
        Abort(ended.status());
        return Progress();
      }
      if (*ended) {
        --*flight->transfer.unfinished;
        flight = flights_.erase(flight);
        moved = true;
      } else {
        ++flight;
      }
    }
    return moved;
  }

  bool PrepareToWait(std::vector<pollfd>* events) override {
    if (failed_ || api_.ucp_worker_arm(worker_) != UCS_OK)
      return false;  // events are already pending
    events->push_back({.fd = event_fd_, .events = POLLIN, .revents = 0});
    return true;
  }

  std::optional<Pending> pending() const override {
    if (flights_.empty()) return std::nullopt;
    const auto order = [](const Flight& flight) {
      return std::pair(!flight.is_receive, flight.transfer.passed_on);
    };
    const auto oldest = std::ranges::min_element(flights_, {}, order);
    return Pending{.peer = oldest->transfer.peer,
                   .tag = oldest->transfer.tag,
                   .bytes = oldest->size,
                   .is_receive = oldest->is_receive,
                   .passed_on = oldest->transfer.passed_on,
                   .name = oldest->transfer.name};
  }

  void Abort(const absl::Status& why) override {
    {
      MutexLock lock(&mu_);
      if (!failure_.ok()) return;
      failure_ = why;
    }
    failed_ = true;
    api_.ucp_worker_signal(worker_);
  }

 private:
  struct Flight {
    Transfer transfer;
    void* request = nullptr;  // null once it has ended
    size_t size = 0;          // expected size
    bool is_receive = false;
    // Used by receives.
    ucs_status_t status = UCS_OK;
    ucp_tag_recv_info_t info = {};
  };

  static absl::Status CheckPart(const MessageTag& tag) {
    if (tag.part < uint32_t{1} << kPartBits) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("UCX: a collective has too many messages; expected at most ", 1 << kPartBits));
  }

  absl::Status UcxError(absl::string_view what, ucs_status_t status) const {
    return absl::UnavailableError(
        absl::StrCat("UCX: ", what, ": ", api_.ucs_status_string(status)));
  }

  absl::Status Failure() const {
    if (!failed_) return absl::OkStatus();
    MutexLock lock(&mu_);
    return failure_;
  }

  absl::StatusOr<ucp_ep_h> EndpointOf(int rank) const {
    const auto ep = endpoints_.find(rank);
    if (ep != endpoints_.end()) return ep->second;
    return absl::InternalError(
        absl::StrCat("UCX: rank ", options_.rank, " is not connected to rank ", rank));
  }

  // Returns whether the transfer has completed, or an error if it has failed.
  absl::StatusOr<bool> HasEnded(Flight& flight) const {
    if (UCS_PTR_IS_ERR(flight.request)) {
      return Lost(flight, UCS_PTR_STATUS(std::exchange(flight.request, nullptr)));
    }
    const ucs_status_t status = api_.ucp_request_check_status(flight.request);
    if (status == UCS_INPROGRESS) return false;
    api_.ucp_request_free(std::exchange(flight.request, nullptr));
    // CheckMessage reports a message that is too long.
    if (status != UCS_OK && status != UCS_ERR_MESSAGE_TRUNCATED) return Lost(flight, status);
    if (flight.is_receive) MF_RETURN_IF_ERROR(CheckMessage(flight));
    return true;
  }

  void CancelAll() {
    for (Flight& flight : flights_) {
      if (flight.request == nullptr || UCS_PTR_IS_ERR(flight.request)) continue;
      api_.ucp_request_cancel(worker_, flight.request);
    }
    // Sends cannot always be cancelled; closing the connections ends them.
    for (const auto& [rank, ep] : std::exchange(endpoints_, {})) Close(ep);
    for (Flight& flight : flights_) {
      if (flight.request != nullptr && !UCS_PTR_IS_ERR(flight.request)) Drain(flight.request);
    }
    flights_.clear();
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

  absl::Status CheckMessage(const Flight& flight) const {
    const int peer = flight.transfer.peer;
    const MessageTag& tag = flight.transfer.tag;
    const ucp_tag_t expected = Pack(peer, options_.incarnation, tag);
    const ucp_tag_t got = flight.info.sender_tag;
    if (got == expected && flight.info.length == flight.size && flight.status == UCS_OK) {
      return absl::OkStatus();
    }
    if (LastBits(got >> kIncarnationShift, kIncarnationBits) !=
        LastBits(options_.incarnation, kIncarnationBits)) {
      return WithFailure(
          absl::AbortedError(
              absl::StrCat("a message from rank ", peer,
                           " belongs to another incarnation of the workers; expected incarnation ",
                           options_.incarnation)),
          {.rank = peer, .name = std::string(flight.transfer.name)});
    }
    return WithFailure(
        UnexpectedMessage(peer, tag, flight.size, Unpack(got, tag), flight.info.length),
        {.name = std::string(flight.transfer.name)});
  }

  absl::Status Lost(const Flight& flight, ucs_status_t status) const {
    return WithFailure(UcxError(absl::StrCat("the connection of rank ", options_.rank, " to rank ",
                                             flight.transfer.peer, " has ended"),
                                status),
                       {.rank = flight.transfer.peer, .name = std::string(flight.transfer.name)});
  }

  const UcxApi& api_;
  const Options options_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::map<int, ucp_ep_h> endpoints_;  // by rank
  std::list<Flight> flights_;          // a list, because UCX keeps the addresses of receives
  std::atomic<bool> failed_{false};
  mutable Mutex mu_;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
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
