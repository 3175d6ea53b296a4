#include "coordinator/coordinator.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/service_type.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/disk_space.h"
#include "base/health_server.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "coordinator/access/access.h"
#include "coordinator/backup_folder.h"
#include "coordinator/backup_maker.h"
#include "coordinator/commit/committer.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/core/job_state.h"
#include "coordinator/data_dir.h"
#include "coordinator/grant_loop.h"
#include "coordinator/http/http_service.h"
#include "coordinator/http/metrics.h"
#include "coordinator/jobs/recovery.h"
#include "coordinator/maintenance/disk_watcher.h"
#include "coordinator/maintenance/expirer.h"
#include "coordinator/maintenance/lease_reaper.h"
#include "coordinator/maintenance/maintenance.h"
#include "coordinator/rpc/job_service.h"
#include "coordinator/rpc/token_check.h"
#include "coordinator/rpc/worker_service.h"
#include "coordinator/rpc/worker_streams.h"
#include "proto/channel.h"
#include "storage/metered_store.h"
#include "storage/rocksdb_store.h"
#include "storage/schema.h"

namespace nightshift {
namespace {

// Even with no grace left, calls get this long to hear that it is over.
constexpr absl::Duration kGraceMin = absl::Milliseconds(200);

// The parts in the order in which they are made; each may use those above it, and the threads of
// those below it have ended before it goes.
class CoordinatorImpl final : public Coordinator {
 public:
  explicit CoordinatorImpl(CoordinatorOptions options)
      : options_(std::move(options)), clock_(Clock::Real()) {}

  ~CoordinatorImpl() override { CoordinatorImpl::Shutdown(absl::ZeroDuration()); }

  absl::Status Init() {
    RouteGrpcLog();
    if (const absl::Status good = CheckTlsFiles(options_.tls); !good.ok()) {
      return absl::PermissionDeniedError(good.message());
    }
    RETURN_IF_ERROR(ReadTokens());
    RETURN_IF_ERROR(ListenForHttp());
    RETURN_IF_ERROR(OpenStore());
    RETURN_IF_ERROR(LoadJobsFromStore());
    MakeParts();
    RETURN_IF_ERROR(Serve());
    RETURN_IF_ERROR(OpenHttp());
    maintenance_ = std::make_unique<Maintenance>(Tasks(), clock_);
    return absl::OkStatus();
  }

  std::shared_ptr<grpc::Channel> InProcessChannel() override {
    return NewInProcessChannel(server_.get());
  }
  std::string grpc_address() const override { return address_; }
  std::string http_address() const override { return http_ == nullptr ? "" : http_->address(); }
  int jobs_loaded() const override { return jobs_loaded_; }
  int jobs_resumed() const override { return jobs_resumed_; }

  void Shutdown(absl::Duration grace) override {
    std::call_once(shutdown_, [this, grace] { ShutdownOnce(grace); });
  }

 private:
  // Also where the room is needed.
  std::string StoreDir() const { return StoreDirOf(options_.data_dir); }

  absl::Status ReadTokens() {
    absl::StatusOr<std::unique_ptr<Access>> access =
        Access::Create({options_.token_file,
                        {options_.tenant_open_jobs_max, options_.tenant_file_bytes_max,
                         options_.tenant_requests_per_second}},
                       clock_);
    if (!access.ok()) return absl::UnauthenticatedError(access.status().message());
    access_ = *std::move(access);
    token_ = std::make_unique<TokenCheck>(*access_, !options_.tls.ca.empty(), clock_);
    return absl::OkStatus();
  }

  // Before the rest: that the address is taken is to be told at once, and supervisors hear of a
  // process that is busy with its store.
  absl::Status ListenForHttp() {
    if (options_.http_address.empty()) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<HttpService>> http =
        HttpService::Listen({options_.http_address, access_.get(), options_.tls}, clock_);
    if (absl::IsAlreadyExists(http.status()) && options_.http_if_free) return absl::OkStatus();
    RETURN_IF_ERROR(http.status());
    http_ = *std::move(http);
    return absl::OkStatus();
  }

  absl::Status OpenHttp() {
    if (http_ == nullptr) return absl::OkStatus();
    return http_->Open({store_.get(), dispatcher_.get(), committer_.get(), &metrics_,
                        absl::StrCat(options_.data_dir, "/files"), temporary_dir_});
  }

  // Whether anyone can ask for the metrics: counting costs something for each result.
  bool measured() const { return http_ != nullptr; }

  absl::Status OpenStore() {
    RETURN_IF_ERROR(CheckNoUnfinishedRestore(options_.data_dir));
    RocksDbStoreOptions store_options;
    store_options.path = StoreDir();
    ASSIGN_OR_RETURN(std::unique_ptr<DiskStore> store, OpenRocksDbStore(store_options));
    disk_store_ = store.get();
    store_ = std::move(store);
    if (measured()) {
      store_ = NewMeteredStore(std::move(store_), clock_,
                               [this](absl::Duration took) { metrics_.OnStoreCommit(took); });
    }
    RETURN_IF_ERROR(PrepareSchema(*store_));
    RETURN_IF_ERROR(DropUnsealedJobs(*store_));
    // A disk that is full was told above: that is the nearer cause.
    if (const absl::StatusOr<DiskSpace> space = DiskSpaceOf(StoreDir()); space.ok()) {
      RETURN_IF_ERROR(CheckVolume(StoreDir(), space->total_bytes));
    }
    // Nothing in it is ever removed: files made there lose their names at once, and a folder of
    // that name may have been somebody's before this was a data folder.
    temporary_dir_ = TemporaryDirOf(options_.data_dir);
    std::error_code error;
    std::filesystem::create_directories(temporary_dir_, error);
    if (error) {
      return absl::PermissionDeniedError(
          absl::StrCat("cannot make the folder ", temporary_dir_, ": ", error.message()));
    }
    return absl::OkStatus();
  }

  absl::Status LoadJobsFromStore() {
    DispatcherOptions dispatcher_options;
    dispatcher_options.lease_ttl = options_.lease_ttl;
    dispatcher_options.reclaim_grace = options_.reclaim_grace;
    Random random = Random::FromSystem();
    dispatcher_options.random_seed = random.Next();
    ASSIGN_OR_RETURN(dispatcher_options.epoch, StartEpoch(*store_));
    ASSIGN_OR_RETURN(dispatcher_options.store_id, StoreId(*store_, random));
    ASSIGN_OR_RETURN(std::vector<LoadedJob> jobs, LoadJobs(*store_));
    store_id_ = dispatcher_options.store_id;
    jobs_loaded_ = static_cast<int>(jobs.size());
    for (const LoadedJob& job : jobs) {
      if (!JobStateInfo(job.record.state()).terminal) ++jobs_resumed_;
    }
    dispatcher_ = std::make_unique<Dispatcher>(std::move(dispatcher_options));
    dispatcher_->SetWakeUp([this] { OnWakeUp(); });
    dispatcher_->Load(std::move(jobs), clock_.Now());
    if (jobs_loaded_ > 0) {
      LogInfo(jobs_loaded_, " jobs found, of which ", jobs_resumed_, " go on");
    }
    return absl::OkStatus();
  }

  void MakeParts() {
    streams_ = std::make_unique<WorkerStreams>(
        *dispatcher_, clock_, [this](WorkerNumber worker) { committer_->DropWaiting(worker); });
    committer_ = std::make_unique<Committer>(
        CommitterOptions{.observer = measured() ? &metrics_ : nullptr}, *store_, *dispatcher_,
        clock_, [this](const Outgoing& outgoing) { streams_->Send(outgoing); },
        [this](absl::Status status) { OnBroken(std::move(status)); });
    std::function<void(int)> on_lease;
    if (measured()) on_lease = [this](int requests) { metrics_.OnLease(requests); };
    grant_loop_ = std::make_unique<GrantLoop>(*store_, *dispatcher_, *committer_, *streams_, clock_,
                                              std::move(on_lease));
    backups_ = std::make_unique<BackupMaker>(
        *disk_store_, *dispatcher_, store_id_, options_.data_dir,
        options_.backup_dir.empty() ? DefaultBackupFolder(options_.data_dir) : options_.backup_dir);
    JobServiceParts parts{store_.get(), dispatcher_.get(), committer_.get(),
                          token_.get(), &clock_,           temporary_dir_};
    parts.create_backup = [this](const v1::CreateBackupRequest& request,
                                 std::function<absl::Status()> go_on) {
      return backups_->Create(request, std::move(go_on));
    };
    parts.list_backups = [this](const v1::ListBackupsRequest& request) {
      return backups_->List(request);
    };
    jobs_ = JobService::Create(std::move(parts));
    workers_ = NewWorkerService(
        {streams_.get(), committer_.get(), token_.get(), &clock_, [this] { grant_loop_->Wake(); }});
    parts_made_.store(true, std::memory_order_release);
    OnWakeUp();
  }

  absl::Status Serve() {
    grpc::ServerBuilder builder;
    const bool on_network = !options_.grpc_address.empty();
    SetCoordinatorServerArguments(builder, on_network);
    int port = 0;
    if (on_network) {
      builder.AddListeningPort(options_.grpc_address, CoordinatorServerCredentials(options_.tls),
                               &port);
    }
    builder.RegisterService(&jobs_->service());
    builder.RegisterService(workers_.get());
    server_ = builder.BuildAndStart();
    if (on_network && (server_ == nullptr || port == 0)) {
      return WhyCannotListen(options_.grpc_address);
    }
    if (server_ == nullptr) return absl::InternalError("the gRPC server cannot be started");
    if (port != 0) {
      const size_t colon = options_.grpc_address.rfind(':');
      address_ = absl::StrCat(options_.grpc_address.substr(0, colon), ":", port);
    }
    return absl::OkStatus();
  }

  std::vector<MaintenanceTask> Tasks() {
    std::vector<MaintenanceTask> tasks;
    tasks.push_back(NewLeaseReaper(*dispatcher_, clock_));
    tasks.push_back(NewExpirer(*dispatcher_, *committer_, clock_));
    tasks.push_back(NewDiskWatcher(*dispatcher_, StoreDir(), DiskSpaceOf));
    tasks.push_back(
        {"stalled streams", absl::Seconds(1), [this] { streams_->CancelStalled(clock_.Now()); }});
    if (http_ != nullptr) {
      tasks.push_back({"expired files", absl::Minutes(1), [this] { http_->Sweep(); }});
    }
    tasks.push_back({"store health", absl::Seconds(1), [this] {
                       if (absl::Status health = store_->Health(); !health.ok()) {
                         OnBroken(std::move(health));
                       }
                     }});
    return tasks;
  }

  // From any thread that has called the dispatcher, often.
  void OnWakeUp() {
    if (!parts_made_.load(std::memory_order_acquire)) return;
    if (dispatcher_->HasInternalWork()) committer_->Nudge();
    grant_loop_->Wake();
    jobs_->Wake();
  }

  void OnBroken(absl::Status status) {
    if (broken_.exchange(true)) return;
    LogError("the store can no longer be trusted (", status.message(),
             "); nothing more is acknowledged. What was acknowledged is safe; a restart of the "
             "coordinator is the cure");
    if (options_.on_broken) options_.on_broken(std::move(status));
  }

  void ShutdownOnce(absl::Duration grace) {
    const MonotonicTime deadline = clock_.Now() + grace;
    // No new work, from inside or outside.
    if (jobs_ != nullptr) jobs_->BeginShutdown();
    if (http_ != nullptr) http_->BeginShutdown();
    if (maintenance_ != nullptr) maintenance_->Stop();
    if (grant_loop_ != nullptr) grant_loop_->Stop();
    if (http_ != nullptr) http_->Stop();
    // Commits what has arrived; its acknowledgements go out before the streams end.
    if (committer_ != nullptr) committer_->Shutdown();
    if (streams_ != nullptr) {
      streams_->FinishAll(absl::UnavailableError("the coordinator is shutting down"));
    }
    if (server_ != nullptr) {
      const absl::Duration left = std::max(kGraceMin, deadline - clock_.Now());
      // Past the deadline every call is cancelled; returns when the last has ended.
      server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(left));
    }
    if (jobs_ != nullptr) jobs_->Shutdown();
    // From here on nothing runs any more.
    server_.reset();
    maintenance_.reset();
    http_.reset();
    workers_.reset();
    jobs_.reset();
    backups_.reset();
    grant_loop_.reset();
    committer_.reset();
    streams_.reset();
    dispatcher_.reset();
    store_.reset();
  }

  const CoordinatorOptions options_;
  Clock& clock_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<TokenCheck> token_;
  Metrics metrics_;
  std::string temporary_dir_;
  std::string store_id_;
  std::string address_;
  int jobs_loaded_ = 0;
  int jobs_resumed_ = 0;

  std::atomic<bool> parts_made_{false};
  std::atomic<bool> broken_{false};
  std::once_flag shutdown_;

  std::unique_ptr<Store> store_;
  DiskStore* disk_store_ = nullptr;  // within store_
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<WorkerStreams> streams_;
  std::unique_ptr<Committer> committer_;
  std::unique_ptr<GrantLoop> grant_loop_;
  std::unique_ptr<BackupMaker> backups_;
  std::unique_ptr<JobService> jobs_;
  std::unique_ptr<grpc::Service> workers_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<HttpService> http_;
  std::unique_ptr<Maintenance> maintenance_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(CoordinatorOptions options) {
  auto coordinator = std::make_unique<CoordinatorImpl>(std::move(options));
  RETURN_IF_ERROR(coordinator->Init());
  return coordinator;
}

}  // namespace nightshift
