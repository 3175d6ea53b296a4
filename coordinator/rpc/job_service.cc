#include "coordinator/rpc/job_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "coordinator/core/tenant.h"
#include "coordinator/jobs/audit.h"
#include "coordinator/jobs/open_jobs.h"
#include "coordinator/jobs/reopen.h"
#include "coordinator/rpc/change_notifier.h"
#include "coordinator/rpc/job_calls.h"
#include "coordinator/rpc/refused_call.h"
#include "coordinator/rpc/status_mapping.h"
#include "coordinator/rpc/task_pool.h"
#include "nightshift/v1/jobs.grpc.pb.h"

namespace nightshift {
namespace {

// Steps of Submit and ReadOutput are milliseconds of disk each; more threads than this only make
// the disk's queue longer.
constexpr int kStreamThreads = 4;
// A command waits for its commit (milliseconds); `retry` of a large job takes seconds.
constexpr int kCommandThreads = 4;
// An audit reads a whole job: one at a time, and in nobody's way.
constexpr int kAuditThreads = 1;
// Nor may a backup, which copies the store, keep an audit waiting.
constexpr int kBackupThreads = 1;

constexpr int kListDefault = 1000;
constexpr int kListMax = 10'000;

using Unary = grpc::ServerUnaryReactor;

// Whether a peer, as gRPC names it, is a process of this machine: over a Unix socket, a pair of
// connected ones, or loopback.
bool IsOnThisMachine(absl::string_view peer) {
  for (const absl::string_view local :
       {"unix:", "fd:", "ipv4:127.", "ipv6:[::1]:", "ipv6:%5B::1%5D:"}) {
    if (absl::StartsWith(peer, local)) return true;
  }
  return false;
}

// What one tenant may know of the fleet that all share: which models are offered, so that a job can
// be handed in for them, and not where and by whom.
v1::WorkerStatus WithoutNames(const v1::WorkerStatus& worker) {
  v1::WorkerStatus told;
  told.set_name("(shared)");
  told.set_state(worker.state());
  for (const v1::WorkerBackendStatus& backend : worker.backends()) {
    *told.add_backends()->mutable_models() = backend.models();
  }
  return told;
}

class JobServiceImpl final : public JobService, public v1::JobService::CallbackService {
 public:
  explicit JobServiceImpl(JobServiceParts parts)
      : context_(std::move(parts), kStreamThreads),
        commands_(kCommandThreads),
        audits_(kAuditThreads),
        backups_(kBackupThreads) {}

  ~JobServiceImpl() override { JobServiceImpl::Shutdown(); }

  grpc::Service& service() override { return *this; }
  void Wake() override { context_.notifier.Wake(); }

  void BeginShutdown() override {
    context_.stopping = true;
    context_.notifier.Shutdown();
  }

  void Shutdown() override {
    BeginShutdown();
    context_.streams.Shutdown();
    commands_.Shutdown();
    audits_.Shutdown();
    backups_.Shutdown();
  }

  // --- streams ---------------------------------------------------------------------------------
  grpc::ServerReadReactor<v1::SubmitMessage>* Submit(grpc::CallbackServerContext* context,
                                                     v1::SubmitReply* reply) override {
    absl::StatusOr<Caller> caller = Admit(*context, Role::kSubmit);
    if (caller.ok()) {
      if (const absl::Status room = CheckOpenJobs(*caller); !room.ok()) caller = room;
    }
    if (!caller.ok()) {
      return new RefusedCall<grpc::ServerReadReactor<v1::SubmitMessage>>(caller.status());
    }
    return NewSubmitCall(context_, *std::move(caller), reply);
  }

  grpc::ServerWriteReactor<v1::JobStatus>* WatchJob(grpc::CallbackServerContext* context,
                                                    const v1::WatchJobRequest* request) override {
    const absl::StatusOr<std::string> job = AdmitToJob(*context, request->job());
    if (!job.ok()) {
      return new RefusedCall<grpc::ServerWriteReactor<v1::JobStatus>>(job.status());
    }
    v1::WatchJobRequest whole = *request;
    whole.set_job(*job);
    return NewWatchCall(context_, whole);
  }

  grpc::ServerWriteReactor<v1::OutputChunk>* ReadOutput(
      grpc::CallbackServerContext* context, const v1::ReadOutputRequest* request) override {
    const absl::StatusOr<std::string> job = AdmitToJob(*context, request->job());
    if (!job.ok()) {
      return new RefusedCall<grpc::ServerWriteReactor<v1::OutputChunk>>(job.status());
    }
    v1::ReadOutputRequest whole = *request;
    whole.set_job(*job);
    return NewReadOutputCall(context_, whole);
  }

  // --- answered from memory, at once -----------------------------------------------------------
  Unary* FindJob(grpc::CallbackServerContext* context, const v1::FindJobRequest* request,
                 v1::JobStatus* reply) override {
    return Answer(context, Role::kRead, [&](const Caller& caller) -> absl::Status {
      const std::optional<JobNumber> job =
          dispatcher().FindJobByToken(TenantToken(caller, request->idempotency_token()));
      // The token may have been guessed, or be one that the Batch API has made.
      const absl::StatusOr<v1::JobRecord> record =
          job.has_value() ? dispatcher().GetRecord(*job) : absl::NotFoundError("");
      if (!record.ok() || !caller.Sees(TenantOf(*record))) {
        return absl::NotFoundError("no job carries that idempotency token");
      }
      return FillStatus(*job, reply);
    });
  }

  Unary* GetJob(grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
                v1::JobStatus* reply) override {
    return Answer(context, Role::kRead, [&](const Caller& caller) -> absl::Status {
      ASSIGN_OR_RETURN(const JobNumber job, Find(caller, request->job()));
      return FillStatus(job, reply);
    });
  }

  Unary* ListJobs(grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
                  v1::ListJobsReply* reply) override {
    return Answer(context, Role::kRead,
                  [&](const Caller& caller) { return List(caller, *request, reply); });
  }

  Unary* ListWorkers(grpc::CallbackServerContext* context, const v1::ListWorkersRequest*,
                     v1::ListWorkersReply* reply) override {
    return Answer(context, Role::kRead, [&](const Caller& caller) -> absl::Status {
      for (v1::WorkerStatus& worker : dispatcher().ListWorkers(context_.parts.clock->Now())) {
        *reply->add_workers() = caller.all_tenants ? std::move(worker) : WithoutNames(worker);
      }
      return absl::OkStatus();
    });
  }

  // --- on threads of their own -----------------------------------------------------------------
  Unary* ControlJob(grpc::CallbackServerContext* context, const v1::ControlJobRequest* request,
                    v1::JobStatus* reply) override {
    return AnswerOn(
        commands_, context, Role::kSubmit,
        [this, request, reply](const Caller& caller) { return Control(caller, *request, reply); });
  }

  Unary* Audit(grpc::CallbackServerContext* context, const v1::AuditRequest* request,
               v1::AuditReply* reply) override {
    return AnswerOn(audits_, context, Role::kAdmin, [this, context, request, reply](const Caller&) {
      return AuditJobs(*context, *request, reply);
    });
  }

  Unary* CreateBackup(grpc::CallbackServerContext* context, const v1::CreateBackupRequest* request,
                      v1::CreateBackupReply* reply) override {
    return AnswerOn(
        backups_, context, Role::kAdmin,
        [this, context, request, reply](const Caller&) -> absl::Status {
          if (!context_.parts.create_backup) return NoBackups();
          RETURN_IF_ERROR(CheckMayName(request->folder(), *context));
          ASSIGN_OR_RETURN(*reply, context_.parts.create_backup(*request, [this, context] {
            if (context_.stopping) return ShuttingDown();
            return context->IsCancelled() ? absl::CancelledError("the client is gone")
                                          : absl::OkStatus();
          }));
          return absl::OkStatus();
        });
  }

  Unary* ListBackups(grpc::CallbackServerContext* context, const v1::ListBackupsRequest* request,
                     v1::ListBackupsReply* reply) override {
    return AnswerOn(commands_, context, Role::kAdmin,
                    [this, context, request, reply](const Caller&) -> absl::Status {
                      if (!context_.parts.list_backups) return NoBackups();
                      RETURN_IF_ERROR(CheckMayName(request->folder(), *context));
                      ASSIGN_OR_RETURN(*reply, context_.parts.list_backups(*request));
                      return absl::OkStatus();
                    });
  }

 private:
  Dispatcher& dispatcher() const { return *context_.parts.dispatcher; }

  absl::StatusOr<Caller> Admit(const grpc::CallbackServerContext& context, Role needed) const {
    absl::StatusOr<Caller> caller = context_.parts.token->Admit(context, needed);
    if (caller.ok() && context_.stopping) return ShuttingDown();
    return caller;
  }

  // The whole id of a job that the caller may read.
  absl::StatusOr<std::string> AdmitToJob(const grpc::CallbackServerContext& context,
                                         const std::string& id) const {
    ASSIGN_OR_RETURN(const Caller caller, Admit(context, Role::kRead));
    ASSIGN_OR_RETURN(const JobNumber job, Find(caller, id));
    ASSIGN_OR_RETURN(const v1::JobRecord record, dispatcher().GetRecord(job));
    return record.id();
  }

  // NotFound for another tenant's, as if it did not exist.
  absl::StatusOr<JobNumber> Find(const Caller& caller, const std::string& id) const {
    return caller.all_tenants ? dispatcher().FindJob(id)
                              : dispatcher().FindJobOf(caller.tenant, id);
  }

  absl::Status CheckOpenJobs(const Caller& caller) const {
    const Access& access = context_.parts.token->access();
    if (!access.limits_open_jobs(caller)) return absl::OkStatus();
    const OpenJobs open = CountOpenJobs(dispatcher(), caller.tenant, context_.parts.clock->Now());
    return access.CheckOpenJobs(caller, open.count, open.first_end);
  }

  static absl::Status NoBackups() {
    return absl::UnimplementedError("this coordinator makes no backups");
  }

  // Where a coordinator writes is for those on its own machine to say.
  static absl::Status CheckMayName(const std::string& folder,
                                   const grpc::CallbackServerContext& context) {
    if (folder.empty() || IsOnThisMachine(context.peer())) return absl::OkStatus();
    return absl::PermissionDeniedError(
        "only a client on the coordinator's own machine may say where backups are; leave "
        "--backup-dir out, or start the coordinator with it");
  }

  template <typename Work>
  Unary* Answer(grpc::CallbackServerContext* context, Role needed, Work work) {
    Unary* const reactor = context->DefaultReactor();
    const absl::StatusOr<Caller> caller = Admit(*context, needed);
    reactor->Finish(ToGrpcStatus(caller.ok() ? work(*caller) : caller.status()));
    return reactor;
  }

  template <typename Work>
  Unary* AnswerOn(TaskPool& pool, grpc::CallbackServerContext* context, Role needed, Work work) {
    Unary* const reactor = context->DefaultReactor();
    const absl::StatusOr<Caller> caller = Admit(*context, needed);
    if (!caller.ok()) {
      reactor->Finish(ToGrpcStatus(caller.status()));
      return reactor;
    }
    // Request and reply are gRPC's, and live until Finish.
    pool.Post([reactor, work, who = *caller] { reactor->Finish(ToGrpcStatus(work(who))); });
    return reactor;
  }

  absl::Status FillStatus(JobNumber job, v1::JobStatus* reply) {
    ASSIGN_OR_RETURN(*reply, dispatcher().GetStatus(job, context_.parts.clock->Now()));
    return absl::OkStatus();
  }

  absl::Status List(const Caller& caller, const v1::ListJobsRequest& request,
                    v1::ListJobsReply* reply) {
    std::vector<JobNumber> jobs;
    if (caller.all_tenants) {
      jobs = dispatcher().ListJobs();
    } else {
      for (const Dispatcher::JobHead& head : dispatcher().ListHeads()) {
        if (caller.Sees(head.tenant)) jobs.push_back(head.job);
      }
    }
    auto next = jobs.begin();
    if (!request.after().empty()) {
      ASSIGN_OR_RETURN(const JobNumber after, Find(caller, request.after()));
      // Newest first, and numbers rise with age: also right when that job goes away meanwhile.
      next = std::find_if(jobs.begin(), jobs.end(), [after](JobNumber job) { return job < after; });
    }
    const int limit = request.limit() <= 0 ? kListDefault : std::min(request.limit(), kListMax);
    for (; next != jobs.end() && reply->jobs_size() < limit; ++next) {
      v1::JobStatus status;
      if (FillStatus(*next, &status).ok()) *reply->add_jobs() = std::move(status);
    }
    reply->set_more(next != jobs.end());
    return absl::OkStatus();
  }

  absl::Status Control(const Caller& caller, const v1::ControlJobRequest& request,
                       v1::JobStatus* reply) {
    ASSIGN_OR_RETURN(const JobNumber job, Find(caller, request.job()));
    const auto execute = [this, job, &request](JobCommand::Kind kind, v1::PauseReason reason) {
      JobCommand command;
      command.kind = kind;
      command.job = job;
      command.reason = reason;
      command.budget_usd = request.budget_usd();
      command.budget_tokens = request.budget_tokens();
      return context_.parts.committer->Execute(std::move(command));
    };
    switch (request.action()) {
      case v1::ControlJobRequest::PAUSE:
        RETURN_IF_ERROR(execute(JobCommand::Kind::kPause, v1::PAUSE_REASON_USER));
        break;
      case v1::ControlJobRequest::RESUME:
        if (!std::isfinite(request.budget_usd()) || request.budget_usd() < 0 ||
            request.budget_tokens() < 0) {
          return absl::InvalidArgumentError("a budget must be a number above 0");
        }
        RETURN_IF_ERROR(execute(JobCommand::Kind::kResume, v1::PAUSE_REASON_NONE));
        break;
      case v1::ControlJobRequest::CANCEL:
        RETURN_IF_ERROR(execute(JobCommand::Kind::kCancel, v1::PAUSE_REASON_NONE));
        break;
      case v1::ControlJobRequest::RETRY: {
        std::vector<v1::ErrorClass> classes;
        for (const int one : request.classes()) classes.push_back(static_cast<v1::ErrorClass>(one));
        RETURN_IF_ERROR(ReopenJob(*context_.parts.store, *context_.parts.committer, dispatcher(),
                                  job, classes));
        break;
      }
      case v1::ControlJobRequest::DELETE:
        // Afterwards there is nothing to tell about it.
        RETURN_IF_ERROR(FillStatus(job, reply));
        return execute(JobCommand::Kind::kDelete, v1::PAUSE_REASON_NONE);
      default:
        return absl::InvalidArgumentError("this coordinator does not know that action");
    }
    return FillStatus(job, reply);
  }

  absl::Status AuditJobs(const grpc::CallbackServerContext& context,
                         const v1::AuditRequest& request, v1::AuditReply* reply) {
    std::vector<JobNumber> jobs;
    if (request.job().empty()) {
      jobs = dispatcher().ListJobs();
    } else {
      ASSIGN_OR_RETURN(const JobNumber job, dispatcher().FindJob(request.job()));
      jobs.push_back(job);
    }
    bool agrees = true;
    for (const JobNumber job : jobs) {
      if (context_.stopping) return ShuttingDown();
      if (context.IsCancelled()) return absl::CancelledError("the client is gone");
      // Deleted since it was listed: nothing to recount.
      if (!request.job().empty() || dispatcher().GetRecord(job).ok()) {
        *reply->add_jobs() = AuditJob(*context_.parts.store, dispatcher(), job);
        agrees = agrees && reply->jobs().rbegin()->agrees();
      }
    }
    reply->set_agrees(agrees);
    return absl::OkStatus();
  }

  JobCallContext context_;
  TaskPool commands_;
  TaskPool audits_;
  TaskPool backups_;
};

}  // namespace

JobCallContext::JobCallContext(JobServiceParts parts_, int stream_threads)
    : parts(std::move(parts_)),
      streams(stream_threads),
      notifier(
          [dispatcher = parts.dispatcher](JobNumber job) { return dispatcher->ChangeCount(job); },
          *parts.clock) {}

std::string TenantToken(const Caller& caller, const std::string& token) {
  return token.empty() || caller.tenant.empty()
             ? token
             : absl::StrCat(caller.tenant, std::string(1, kTenantMark), token);
}

absl::Status ShuttingDown() {
  return absl::UnavailableError(
      "the coordinator is shutting down; nothing is lost, try again when it is back");
}

std::unique_ptr<JobService> JobService::Create(JobServiceParts parts) {
  return std::make_unique<JobServiceImpl>(std::move(parts));
}

}  // namespace nightshift
