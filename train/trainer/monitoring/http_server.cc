// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/monitoring/http_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "framework/core/log.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"

namespace mirrorflow {
namespace {

constexpr size_t kChunk = 4096;
constexpr size_t kMaxDiscarded = 16 * HttpServer::kMaxRequestBytes;
constexpr absl::Duration kPauseAfterError = absl::Milliseconds(100);

absl::string_view ReasonOf(int code) {
  constexpr std::pair<int, absl::string_view> kReasons[] = {
      {200, "OK"},
      {400, "Bad Request"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {431, "Request Header Fields Too Large"},
      {503, "Service Unavailable"}};
  for (const auto& [known, reason] : kReasons) {
    if (known == code) return reason;
  }
  return "Internal Server Error";
}

// Formats an HTTP/1.0 reply. The connection closes after it.
std::string ReplyText(const HttpReply& reply, bool with_body) {
  return absl::StrCat(
      "HTTP/1.0 ", reply.code, " ", ReasonOf(reply.code), "\r\nContent-Type: ", reply.content_type,
      "\r\nContent-Length: ", reply.body.size(), reply.code == 405 ? "\r\nAllow: GET, HEAD" : "",
      "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n", with_body ? reply.body : "");
}

std::string ErrorText(int code) {
  return ReplyText({.code = code, .body = absl::StrCat(ReasonOf(code), "\n")}, /*with_body=*/true);
}

bool IsWholeRequest(absl::string_view request) {
  return absl::StrContains(request, "\r\n\r\n") || absl::StrContains(request, "\n\n");
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(absl::string_view address,
                                                              Handler handler) {
  MF_ASSIGN_OR_RETURN(auto listener, ConnectionListener::Listen(address));
  OwnedSocket wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.fd() < 0) return SystemError(errno, "eventfd");
  std::unique_ptr<HttpServer> server(
      new HttpServer(std::move(listener), std::move(wake), std::move(handler)));
  MF_ASSIGN_OR_RETURN(server->thread_, StartThread("HTTP server", [server = server.get()] {
                        std::list<Client> clients;
                        server->Serve(clients);
                      }));
  MF_RETURN_IF_ERROR(server->listener_->Start(
      [server = server.get()](int fd, const std::string&) {
        server->Add(fd);
        return absl::ZeroDuration();
      },
      [](const absl::Status& why) { LogWarning(absl::StrCat("HTTP server: ", why.message())); }));
  return server;
}

HttpServer::HttpServer(std::unique_ptr<ConnectionListener> listener, OwnedSocket wake,
                       Handler handler)
    : handler_(std::move(handler)), wake_(std::move(wake)), listener_(std::move(listener)) {}

HttpServer::~HttpServer() {
  listener_ = nullptr;  // Add is no longer called
  if (!thread_.joinable()) return;
  {
    MutexLock lock(&mutex_);
    is_stopped_ = true;
  }
  eventfd_write(wake_.fd(), 1);
  thread_.join();
}

void HttpServer::Add(int fd) {
  OwnedSocket socket(fd);
  // If memory runs out, close the connection.
  CatchOutOfMemory([&] {
    MutexLock lock(&mutex_);
    if (arrivals_.size() == kMaxClients) arrivals_.pop_front();
    arrivals_.push_back({.socket = std::move(socket), .deadline = MonotonicTime::Now() + kTimeout});
    return absl::OkStatus();
  }).IgnoreError();
  eventfd_write(wake_.fd(), 1);
}

bool HttpServer::TakeArrivals(std::list<Client>& clients) {
  eventfd_t count;
  eventfd_read(wake_.fd(), &count);
  MutexLock lock(&mutex_);
  clients.splice(clients.end(), arrivals_);
  while (clients.size() > kMaxClients) clients.pop_front();
  return !is_stopped_;
}

void HttpServer::Serve(std::list<Client>& clients) {
  std::vector<pollfd> polled;
  while (TakeArrivals(clients)) {
    const absl::Status served = CatchOutOfMemory([&] {
      clients.remove_if([&](Client& client) { return !Advance(client); });
      polled = {{.fd = wake_.fd(), .events = POLLIN, .revents = 0}};
      MonotonicTime next = MonotonicTime::InfiniteFuture();
      for (const Client& client : clients) {
        const bool sends = client.is_answered && !client.is_closing;
        polled.push_back({.fd = client.socket.fd(),
                          .events = static_cast<short>(sends ? POLLOUT : POLLIN),
                          .revents = 0});
        next = std::min(next, client.deadline);
      }
      const absl::Duration wait = next - MonotonicTime::Now() + absl::Milliseconds(1);
      const int timeout =
          clients.empty()
              ? -1
              : static_cast<int>(absl::ToInt64Milliseconds(std::max(wait, absl::ZeroDuration())));
      poll(polled.data(), polled.size(), timeout);
      return absl::OkStatus();
    });
    if (!served.ok()) absl::SleepFor(kPauseAfterError);
  }
}

bool HttpServer::Advance(Client& client) const {
  if (MonotonicTime::Now() >= client.deadline) return false;
  if (!client.is_answered && !ReadRequest(client)) return false;
  if (client.is_answered && !client.is_closing && !SendReply(client)) return false;
  return !client.is_closing || Discard(client);
}

bool HttpServer::ReadRequest(Client& client) const {
  char chunk[kChunk];
  while (true) {
    const ssize_t n = recv(client.socket.fd(), chunk, sizeof(chunk), 0);
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
    client.request.append(chunk, n);
    if (IsWholeRequest(client.request)) {
      client.reply = Answer(client.request);
    } else if (client.request.size() > kMaxRequestBytes) {
      client.reply = ErrorText(431);
    } else {
      continue;
    }
    client.is_answered = true;
    return true;
  }
}

bool HttpServer::SendReply(Client& client) {
  while (!client.reply.empty()) {
    const ssize_t n =
        send(client.socket.fd(), client.reply.data(), client.reply.size(), MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    client.reply.erase(0, n);
  }
  client.is_closing = true;
  return shutdown(client.socket.fd(), SHUT_WR) == 0;
}

bool HttpServer::Discard(Client& client) {
  char chunk[kChunk];
  while (client.discarded < kMaxDiscarded) {
    const ssize_t n = recv(client.socket.fd(), chunk, sizeof(chunk), 0);
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
    client.discarded += n;
  }
  return false;
}

std::string HttpServer::Answer(absl::string_view request) const {
  // METHOD TARGET HTTP/1.1
  const absl::string_view line = request.substr(0, request.find_first_of("\r\n"));
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  const bool is_valid =
      words.size() == 3 && absl::StartsWith(words[1], "/") && absl::StartsWith(words[2], "HTTP/1.");
  if (!is_valid) return ErrorText(400);
  const bool with_body = words[0] == "GET";
  if (!with_body && words[0] != "HEAD") return ErrorText(405);
  return ReplyText(handler_(words[1].substr(0, words[1].find('?'))), with_body);
}

}  // namespace mirrorflow
