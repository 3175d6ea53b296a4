#include "coordinator/http/http_service.h"

#include <atomic>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "coordinator/http/api.h"
#include "coordinator/http/api_reply.h"
#include "coordinator/http/http_server.h"

namespace nightshift {
namespace {

constexpr int kUnavailable = 503;

HttpReply TextReply(int status, absl::string_view text) {
  HttpReply reply;
  reply.status = status;
  reply.content_type = "text/plain";
  reply.body = absl::StrCat(text, "\n");
  return reply;
}

// What exists once the store is open; used by the handlers, which hold on to it while they work.
struct OpenApi {
  HttpServiceParts parts;
  std::unique_ptr<FileTable> files;
  std::unique_ptr<BatchTable> batches;
  std::unique_ptr<OutputFiles> outputs;
  std::unique_ptr<BatchMaker> maker;
  std::unique_ptr<Api> api;
};

class HttpServiceImpl final : public HttpService {
 public:
  HttpServiceImpl(const HttpServiceOptions& options, Clock& clock)
      : clock_(clock), access_(*options.access), gate_(access_) {}
  ~HttpServiceImpl() override { HttpServiceImpl::Stop(); }

  absl::Status Start(const HttpServiceOptions& options) {
    if (options.tls.has_identity()) {
      absl::StatusOr<std::unique_ptr<TlsIdentity>> tls = TlsIdentity::Create(options.tls, clock_);
      if (!tls.ok()) return absl::PermissionDeniedError(tls.status().message());
      tls_ = *std::move(tls);
    }
    ASSIGN_OR_RETURN(server_,
                     HttpServer::Start(options.address, tls_.get(), clock_,
                                       [this](HttpRequest& request) { return Handle(request); }));
    return absl::OkStatus();
  }

  const std::string& address() const override { return server_->address(); }

  absl::Status Open(const HttpServiceParts& parts) override {
    auto open = std::make_shared<OpenApi>();
    open->parts = parts;
    ASSIGN_OR_RETURN(open->files, FileTable::Open(*parts.store, clock_, parts.files_dir));
    ASSIGN_OR_RETURN(open->batches, BatchTable::Open(*parts.store, clock_));
    open->outputs = std::make_unique<OutputFiles>(*parts.store, *parts.dispatcher, stopping_);
    open->maker = std::make_unique<BatchMaker>(
        BatchMakerParts{parts.store, parts.dispatcher, parts.committer, &clock_, open->files.get(),
                        open->batches.get(), parts.temporary_dir});
    open->api = std::make_unique<Api>(ApiParts{
        parts.store, parts.dispatcher, parts.committer, &clock_, open->files.get(),
        open->batches.get(), open->maker.get(), open->outputs.get(), &stopping_, &access_});
    MutexLock lock(&mutex_);
    open_ = std::move(open);
    return absl::OkStatus();
  }

  void Sweep() override {
    const std::shared_ptr<OpenApi> open = Current();
    if (open == nullptr) return;
    if (const absl::Status status = open->api->Sweep(); !status.ok()) {
      LogWarning("what has expired of files and batches stays for now: ", status.ToString());
    }
  }

  void BeginShutdown() override { stopping_ = true; }

  void Stop() override {
    BeginShutdown();
    if (server_ != nullptr) server_->Stop();
    std::shared_ptr<OpenApi> last;
    {
      MutexLock lock(&mutex_);
      last = std::move(open_);
    }
    if (last != nullptr) last->maker->Stop();
  }

 private:
  // Null while it is starting or stopping.
  std::shared_ptr<OpenApi> Current() const {
    MutexLock lock(&mutex_);
    return stopping_ ? nullptr : open_;
  }

  HttpReply Handle(HttpRequest& request) {
    if (request.path == "/healthz") return TextReply(200, "ok");
    if (request.path == "/readyz") {
      const absl::Status ready = Ready();
      return ready.ok() ? TextReply(200, "ready") : TextReply(kUnavailable, ready.message());
    }
    if (request.path == "/metrics") return MetricsReply();
    if (request.crowded) return TooManyConnections();
    HttpReply refusal;
    if (!gate_.Admits(request, &refusal)) return refusal;
    if (!absl::StartsWith(request.path, "/v1/")) return UnknownRoute(request);
    const std::shared_ptr<OpenApi> open = Current();
    if (open == nullptr) return ErrorReply(absl::UnavailableError("Starting or stopping."));
    return open->api->Handle(request);
  }

  // For whoever may reach the port: figures, no names of people's.
  HttpReply MetricsReply() const {
    const std::shared_ptr<OpenApi> open = Current();
    if (open == nullptr) return TextReply(kUnavailable, "starting or stopping");
    HttpReply reply;
    reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    reply.body = open->parts.metrics->Render(*open->parts.dispatcher, clock_.Now());
    return reply;
  }

  absl::Status Ready() const {
    const std::shared_ptr<OpenApi> open = Current();
    if (open == nullptr) return absl::UnavailableError("starting or stopping");
    RETURN_IF_ERROR(open->parts.store->Health());
    return open->parts.dispatcher->TakesNewJobs();
  }

  Clock& clock_;
  const Access& access_;
  const Gate gate_;
  std::unique_ptr<TlsIdentity> tls_;
  std::unique_ptr<HttpServer> server_;
  // Also read by what takes long, without a lock.
  std::atomic<bool> stopping_{false};
  mutable Mutex mutex_;
  std::shared_ptr<OpenApi> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpService>> HttpService::Listen(const HttpServiceOptions& options,
                                                                 Clock& clock) {
  auto service = std::make_unique<HttpServiceImpl>(options, clock);
  RETURN_IF_ERROR(service->Start(options));
  return std::unique_ptr<HttpService>(std::move(service));
}

}  // namespace nightshift
