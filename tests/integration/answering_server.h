// A small inference server in the test's process: answers chat requests with their own prompt, and
// remembers every call, so that a test knows what really happened.
#ifndef NIGHTSHIFT_TESTS_INTEGRATION_ANSWERING_SERVER_H_
#define NIGHTSHIFT_TESTS_INTEGRATION_ANSWERING_SERVER_H_

#include <httplib.h>

#include <map>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"

namespace nightshift {

class AnsweringServer {
 public:
  // Port 0 picks one.
  explicit AnsweringServer(int port = 0) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(64); };
    server_.set_tcp_nodelay(true);
    // A kept connection holds a thread of this server for that long, and its end.
    server_.set_keep_alive_timeout(1);
    server_.Get("/v1/models", [](const httplib::Request&, httplib::Response& response) {
      response.set_content(R"({"object":"list","data":[{"id":"m","object":"model"}]})",
                           "application/json");
    });
    server_.Post("/v1/chat/completions",
                 [this](const httplib::Request& request, httplib::Response& response) {
                   Answer(request, response);
                 });
    port_ = port == 0 ? server_.bind_to_any_port("127.0.0.1") : port;
    if (port != 0) NIGHTSHIFT_CHECK(server_.bind_to_port("127.0.0.1", port), "port taken");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // It cannot be stopped before it has begun.
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~AnsweringServer() {
    SetOpen(true);
    server_.stop();
    thread_.join();
  }

  std::string url() const { return absl::StrCat("http://127.0.0.1:", port_); }
  int port() const { return port_; }

  // While closed, calls arrive and wait.
  void SetOpen(bool open) {
    MutexLock lock(&mutex_);
    open_ = open;
    changed_.SignalAll();
  }
  // Until that many calls have arrived (and wait, or have been answered).
  void AwaitArrived(int calls) {
    MutexLock lock(&mutex_);
    while (arrived_ < calls) changed_.Wait(&mutex_);
  }
  void AwaitAnswered(int calls) {
    MutexLock lock(&mutex_);
    while (answered_ < calls) changed_.Wait(&mutex_);
  }
  int arrived() const {
    MutexLock lock(&mutex_);
    return arrived_;
  }
  // How often each prompt was called.
  std::map<std::string, int> calls() const {
    MutexLock lock(&mutex_);
    return calls_;
  }

 private:
  void Answer(const httplib::Request& request, httplib::Response& response) {
    // The prompt is what stands between these in the bodies that the tests make.
    const std::string before = "\"content\":\"";
    const size_t begin = request.body.find(before) + before.size();
    const std::string prompt = request.body.substr(begin, request.body.find('"', begin) - begin);
    {
      MutexLock lock(&mutex_);
      ++arrived_;
      ++calls_[prompt];
      changed_.SignalAll();
      while (!open_) changed_.Wait(&mutex_);
      ++answered_;
      changed_.SignalAll();
    }
    response.set_content(
        absl::StrCat(R"({"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,)",
                     R"("message":{"role":"assistant","content":"answer to )", prompt,
                     R"("},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,)",
                     R"("completion_tokens":5,"total_tokens":8}})"),
        "application/json");
  }

  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  int answered_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_INTEGRATION_ANSWERING_SERVER_H_
