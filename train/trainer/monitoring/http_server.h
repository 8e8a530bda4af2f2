// SPDX-License-Identifier: Apache-2.0
//
// HttpServer answers GET and HEAD requests for a few paths, such as those of probes and scrapers:
//
//   const auto answer = [](absl::string_view path) {
//     return path == "/healthz" ? HttpReply{.body = "ok\n"} : HttpReply::NotFound();
//   };
//   MF_ASSIGN_OR_RETURN(auto server, HttpServer::Start("127.0.0.1:9090", answer));
//
// Clients are not trusted: the number of clients, the request size and the time per client are
// bounded. Each connection serves one request. Nothing is encrypted or authenticated.
#ifndef MIRRORFLOW_TRAIN_TRAINER_MONITORING_HTTP_SERVER_H_
#define MIRRORFLOW_TRAIN_TRAINER_MONITORING_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distribute/cluster/connections/connection_listener.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/owned_socket.h"

namespace mirrorflow {

struct HttpReply {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = "";

  static HttpReply NotFound() { return {.code = 404, .body = "not found\n"}; }
};

class HttpServer {
 public:
  // Receives the request's path, without a query, and returns the reply.
  using Handler = std::function<HttpReply(absl::string_view path)>;

  static constexpr size_t kMaxClients = 32;  // above this, a new client replaces the oldest
  static constexpr size_t kMaxRequestBytes = 8192;
  // The maximum time from the connection to the end of the reply.
  static constexpr absl::Duration kTimeout = absl::Seconds(5);

  // Listens on HOST:PORT; port 0 chooses a free port. Calls `handler` on the server's thread; it
  // must not block. Errors are those of ConnectionListener::Listen.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(absl::string_view address,
                                                           Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return listener_->port(); }

 private:
  struct Client {
    OwnedSocket socket;
    MonotonicTime deadline;
    std::string request = {};
    bool is_answered = false;
    std::string reply = {};  // the part that has not been sent yet
    // Set after the reply, while the server discards further bytes from the client: closing a
    // socket with unread bytes resets the connection, and the client could lose the reply.
    bool is_closing = false;
    size_t discarded = 0;
  };

  HttpServer(std::unique_ptr<ConnectionListener> listener, OwnedSocket wake, Handler handler);
  void Add(int fd);
  // Waits for clients and serves their requests until the server stops.
  void Serve(std::list<Client>& clients);
  // Moves new connections to `clients`. Returns false when the server stops.
  bool TakeArrivals(std::list<Client>& clients);
  // These four functions do as much as possible without blocking. They return false when the
  // connection is over.
  bool Advance(Client& client) const;
  bool ReadRequest(Client& client) const;
  static bool SendReply(Client& client);
  static bool Discard(Client& client);
  std::string Answer(absl::string_view request) const;

  const Handler handler_;
  const OwnedSocket wake_;  // an eventfd
  Mutex mutex_;
  std::list<Client> arrivals_ ABSL_GUARDED_BY(mutex_);  // not yet taken by the server's thread
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
  std::unique_ptr<ConnectionListener> listener_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_MONITORING_HTTP_SERVER_H_
