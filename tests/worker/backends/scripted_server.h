// An HTTP server on loopback whose every answer, and every misbehaviour, a test decides.
//
// One thread of its own serves all connections, so that hundreds may be open. The handler runs on
// that thread. Connections that are to hang simply get no reply.
#ifndef NIGHTSHIFT_TESTS_WORKER_BACKENDS_SCRIPTED_SERVER_H_
#define NIGHTSHIFT_TESTS_WORKER_BACKENDS_SCRIPTED_SERVER_H_

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace nightshift {

class ScriptedServer {
 public:
  struct Request {
    std::string head;  // request line and headers, as sent
    std::string body;
    int connection = 0;            // from 0, in order of arrival
    int number_on_connection = 0;  // from 0
  };
  // kDie: a reset, and no connection is taken any more.
  enum class Then { kKeep, kClose, kReset, kHang, kDie };
  struct Reply {
    std::string bytes;        // the whole response, status line included
    Then then = Then::kKeep;  // what becomes of the connection
    bool hold = false;        // not before Release()
    size_t piece = 0;         // sent in pieces of this size; 0 = at once
  };
  using Handler = std::function<Reply(const Request&)>;

  struct Options {
    bool reads = true;          // false: it accepts connections and never reads from them
    std::string greeting = "";  // sent on every new connection, unasked
  };
  explicit ScriptedServer(Handler handler) : ScriptedServer(std::move(handler), Options()) {}
  ScriptedServer(Handler handler, Options options);
  ~ScriptedServer();

  int port() const { return port_; }
  std::string url() const;

  // Sends all held replies, and from then on holds none.
  void Release();
  // Each waits until it is so; a test that waits in vain is ended by its time limit.
  void WaitForHeld(int count);
  void WaitForSent(int count);  // replies that have left whole, or as whole as was asked for
  void WaitForConnections(int count);
  void WaitForClosedByPeer(int count);
  void WaitForClosed(int count);  // by the server itself

  int connections() const;
  std::vector<Request> requests() const;

  // "HTTP/1.1 200 OK" with Content-Length and `headers` (each line ended by \r\n).
  static std::string Response(int status, const std::string& body,
                              const std::string& headers = "Content-Type: application/json\r\n");
  // The body as a chunked event stream; `whole` = with the last chunk.
  static std::string EventStream(const std::string& body, bool whole = true);
  // An answer to a chat request with this text in it.
  static std::string ChatAnswer(const std::string& content);

 private:
  struct Connection {
    int number = 0;
    int requests = 0;
    std::string input;
    bool hung = false;
    std::vector<Reply> held;
  };
  void Serve();
  void Accept();
  // Each returns false when the connection is gone.
  bool ReadFrom(int fd);
  bool SendReply(int fd, const Reply& reply);
  void CloseConnection(int fd, bool by_peer);
  void Wake();

  const Handler handler_;
  const Options options_;
  int listener_ = -1;
  int wakeup_ = -1;
  int port_ = 0;

  // The server's thread only.
  std::map<int, Connection> open_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  int held_ ABSL_GUARDED_BY(mutex_) = 0;
  int sent_ ABSL_GUARDED_BY(mutex_) = 0;
  int connections_ ABSL_GUARDED_BY(mutex_) = 0;
  int closed_by_peer_ ABSL_GUARDED_BY(mutex_) = 0;
  int closed_by_us_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_WORKER_BACKENDS_SCRIPTED_SERVER_H_
