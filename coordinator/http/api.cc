#include "coordinator/http/api.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/health_server.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "coordinator/http/api_reply.h"

namespace nightshift {
namespace {

constexpr int kUnauthorized = 401;
constexpr int kForbidden = 403;
constexpr int kNotFound = 404;
constexpr int kMethodNotAllowed = 405;

HttpReply WrongMethod(const HttpRequest& request, absl::string_view allowed) {
  ApiError error;
  error.status = kMethodNotAllowed;
  error.message = absl::StrCat("Not allowed to ", request.method, " ", request.path,
                               "; allowed: ", allowed, ".");
  error.code = "method_not_allowed";
  HttpReply reply = ErrorReply(error);
  reply.headers.emplace_back("Allow", allowed);
  return reply;
}

// The host of "http://HOST:PORT" or "HOST:PORT", without port and brackets.
std::string HostOf(absl::string_view text) {
  absl::ConsumePrefix(&text, "http://") || absl::ConsumePrefix(&text, "https://");
  if (absl::ConsumePrefix(&text, "[")) return std::string(text.substr(0, text.find(']')));
  return std::string(text.substr(0, text.find(':')));
}

bool IsAddress(absl::string_view host) {
  return !host.empty() && host.find_first_not_of("0123456789.") == absl::string_view::npos;
}

// Of a name that somebody else chose: "127.0.0.1.example" is not one of ours.
bool IsOwnHost(const std::string& host) {
  return host == "localhost" || host == "::1" || (IsLoopbackHost(host) && IsAddress(host));
}

std::string ModelObject(const std::string& id) {
  std::string json = "{\"id\":";
  AppendJsonString(json, id);
  // When it was made nobody here knows.
  absl::StrAppend(&json, ",\"object\":\"model\",\"created\":0,\"owned_by\":\"nightshift\"}");
  return json;
}

}  // namespace

HttpReply UnknownRoute(const HttpRequest& request) {
  ApiError error;
  error.status = kNotFound;
  error.message = absl::StrCat("Unknown request URL: ", request.method, " ", request.path,
                               ". See the README for what is served here.");
  error.code = "unknown_url";
  return ErrorReply(error);
}

bool Gate::Admits(HttpRequest& request, HttpReply* refusal) const {
  if (access_.asks_for_tokens()) {
    const std::string* const authorization = request.Header("authorization");
    absl::string_view token;
    if (authorization != nullptr) token = *authorization;
    if (!absl::ConsumePrefix(&token, "Bearer ")) token = "";
    absl::StatusOr<Caller> caller = access_.Admit(token);
    if (!caller.ok()) {
      ApiError error;
      error.status = kUnauthorized;
      error.message = std::string(caller.status().message());
      error.code = "invalid_api_key";
      *refusal = ErrorReply(error);
      return false;
    }
    request.caller = *std::move(caller);
    const absl::Duration wait = access_.Throttle(request.caller);
    if (wait == absl::ZeroDuration()) return true;
    *refusal = ErrorReply(TenantLimitError("too many calls.", wait));
    return false;
  }
  ApiError error;
  const std::string* const host = request.Header("host");
  const std::string* const origin = request.Header("origin");
  const bool host_ok = host == nullptr || IsOwnHost(HostOf(*host)) || IsAddress(HostOf(*host));
  const bool origin_ok = origin == nullptr || IsOwnHost(HostOf(*origin));
  if (host_ok && origin_ok) return true;
  error.status = kForbidden;
  error.message =
      "Without a token only this machine's own pages and programs are let in; start the "
      "coordinator with --token-file, or use the address 127.0.0.1.";
  error.code = host_ok ? "foreign_origin" : "foreign_host";
  *refusal = ErrorReply(error);
  return false;
}

bool Api::MayCall(const HttpRequest& request, HttpReply* refusal) {
  const Role needed = request.method == "GET" ? Role::kRead : Role::kSubmit;
  if (request.caller.May(needed)) return true;
  ApiError error;
  error.status = kForbidden;
  error.message = absl::StrCat("A token of the role ", RoleWord(request.caller.role),
                               " may not do this; one of the role ", RoleWord(needed), " may.");
  error.code = "insufficient_permissions";
  *refusal = ErrorReply(error);
  return false;
}

HttpReply Api::Handle(HttpRequest& request) const {
  std::vector<std::string> path = absl::StrSplit(request.path, '/', absl::SkipEmpty());
  // The first is "v1". What follows belongs to the route.
  if (path.size() < 2) return UnknownRoute(request);
  const std::string collection = path[1];
  path.erase(path.begin(), path.begin() + 2);
  HttpReply refusal;
  if (!MayCall(request, &refusal)) return refusal;
  if (collection == "files") return HandleFiles(request, path);
  if (collection == "batches") return HandleBatches(request, path);
  if (collection == "uploads") return HandleUploads(request, path);
  if (collection == "models" && path.size() <= 2) {
    // Names of models may have a slash.
    const std::string id = path.empty() ? "" : request.path.substr(sizeof("/v1/models/") - 1);
    return HandleModels(request, id);
  }
  return UnknownRoute(request);
}

absl::Status Api::Sweep() const {
  parts_.files->Sweep();
  RETURN_IF_ERROR(uploads_.Sweep());
  RETURN_IF_ERROR(parts_.outputs->Sweep());
  std::vector<std::string> gone = parts_.batches->EndedBefore(
      absl::ToUnixMillis(parts_.clock->WallNow() - kBatchWithoutJobMemory));
  for (const BatchTable::Summary& batch : parts_.batches->List()) {
    const bool deleted = batch.phase == v1::BATCH_PHASE_MADE &&
                         !parts_.dispatcher->FindJob(JobIdOfBatch(batch.id)).ok();
    if (deleted) gone.push_back(batch.id);
  }
  return gone.empty() ? absl::OkStatus() : parts_.batches->Remove(gone);
}

HttpReply Api::HandleFiles(HttpRequest& request, const std::vector<std::string>& path) const {
  if (path.empty()) {
    if (request.method == "GET") return files_.List(request);
    if (request.method == "POST") return files_.Upload(request);
    return WrongMethod(request, "GET, POST");
  }
  if (path.size() == 1) {
    if (request.method == "GET") return files_.Get(request, path[0]);
    if (request.method == "DELETE") return files_.Delete(request, path[0]);
    return WrongMethod(request, "GET, DELETE");
  }
  if (path.size() == 2 && path[1] == "content") {
    if (request.method == "GET") return files_.Content(request, path[0]);
    return WrongMethod(request, "GET");
  }
  return UnknownRoute(request);
}

HttpReply Api::HandleBatches(HttpRequest& request, const std::vector<std::string>& path) const {
  if (path.empty()) {
    if (request.method == "GET") return batches_.List(request);
    if (request.method == "POST") return batches_.Create(request);
    return WrongMethod(request, "GET, POST");
  }
  if (path.size() == 1) {
    if (request.method == "GET") return batches_.Get(request, path[0]);
    return WrongMethod(request, "GET");
  }
  if (path.size() != 2) return UnknownRoute(request);
  const std::string& action = path[1];
  if (action == "results") {
    if (request.method == "GET") return batches_.Results(request, path[0]);
    return WrongMethod(request, "GET");
  }
  if (action == "events") {
    if (request.method == "GET") return batches_.Events(request, path[0]);
    return WrongMethod(request, "GET");
  }
  if (action != "cancel" && action != "pause" && action != "resume") return UnknownRoute(request);
  if (request.method != "POST") return WrongMethod(request, "POST");
  if (action == "cancel") return batches_.Cancel(request, path[0]);
  return batches_.Control(request, path[0],
                          action == "pause" ? JobCommand::Kind::kPause : JobCommand::Kind::kResume);
}

HttpReply Api::HandleUploads(HttpRequest& request, const std::vector<std::string>& path) const {
  const std::string action = path.size() == 2 ? path[1] : "";
  const bool known =
      path.empty() || action == "parts" || action == "complete" || action == "cancel";
  if (!known) return UnknownRoute(request);
  if (request.method != "POST") return WrongMethod(request, "POST");
  if (path.empty()) return uploads_.Create(request);
  if (action == "parts") return uploads_.AddPart(request, path[0]);
  if (action == "complete") return uploads_.Complete(request, path[0]);
  return uploads_.Cancel(request, path[0]);
}

HttpReply Api::HandleModels(const HttpRequest& request, const std::string& id) const {
  if (request.method != "GET") return WrongMethod(request, "GET");
  std::set<std::string> models;
  for (const v1::WorkerStatus& worker : parts_.dispatcher->ListWorkers(parts_.clock->Now())) {
    if (worker.state() == "gone") continue;
    for (const v1::WorkerBackendStatus& backend : worker.backends()) {
      models.insert(backend.models().begin(), backend.models().end());
    }
  }
  if (!id.empty()) {
    if (models.contains(id)) return JsonReply(ModelObject(id) + "\n");
    ApiError error;
    error.status = kNotFound;
    error.message = absl::StrCat("The model '", id, "' is not offered by any worker.");
    error.param = "model";
    error.code = "model_not_found";
    return ErrorReply(error);
  }
  std::vector<std::string> objects;
  Page page;
  for (const std::string& model : models) {
    objects.push_back(ModelObject(model));
    page.entries.push_back({0, model});
  }
  return ListReply(objects, page);
}

}  // namespace nightshift
