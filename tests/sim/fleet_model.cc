#include "tests/sim/fleet_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/core/limiter.h"

namespace nightshift::sim {
namespace {

constexpr absl::Duration kNetwork = absl::Milliseconds(10);
constexpr absl::Duration kCommitEvery = absl::Milliseconds(2);

JobNumber NumberOf(size_t job) { return job + 1; }

}  // namespace

// One worker process with its backend.
class Fleet::Node final : public CallPort, public LinkPort {
 public:
  Node(Fleet& fleet, size_t place, const FleetBackend& backend)
      : fleet_(fleet), backend_(backend), name_(absl::StrCat("w", place)) {
    RunnerOptions options;
    options.name = name_;
    options.session = absl::StrCat("session-", place);
    options.random_seed = place;
    RunnerBackend& only = options.backends.emplace_back();
    only.info.set_name("b");
    only.info.set_state("ready");
    only.limiter = NewFixedLimiter(backend.slots);
    runner_ = std::make_unique<Runner>(std::move(options), *this, *this);
    fleet_.After(absl::ZeroDuration(), [this] {
      runner_->OnLinkUp(Now());
      Settle();
    });
  }

  WorkerNumber number = 0;

  void Receive(v1::CoordinatorMessage message) {
    fleet_.After(kNetwork, [this, message = std::move(message)]() mutable {
      runner_->OnMessage(std::move(message), Now());
      Settle();
    });
  }

  // --- CallPort
  void Start(CallRequest request) override {
    const RequestId id = IdOf(request.body);
    double work = fleet_.WorkOf(id);
    fleet_.Book();
    ++fleet_.calling_[id.job - 1];
    Outcome& outcome = fleet_.outcomes_[id.job - 1];
    ++outcome.calls;
    if (outcome.first_call < 0) outcome.first_call = fleet_.now();
    const double now = fleet_.now();
    double seconds = work / backend_.speed;
    if (now + seconds > backend_.slow_from) {
      const double before = std::max(0.0, backend_.slow_from - now);
      seconds = before + (seconds - before) * backend_.slower;
    }
    calls_[request.id] = {id, now};
    fleet_.After(absl::Seconds(seconds), [this, call = request.id] { Finish(call, false); });
  }
  void Abort(CallId call) override {
    fleet_.After(absl::Milliseconds(1), [this, call] { Finish(call, true); });
  }

  // --- LinkPort
  void Send(v1::WorkerMessage message) override {
    fleet_.After(kNetwork, [this, message = std::move(message)]() mutable { Arrive(message); });
  }
  int Backlog() const override { return 0; }
  void Reopen() override {}

  static std::string BodyOf(const RequestId& id) { return absl::StrCat(id.job, " ", id.index); }

 private:
  struct Call {
    RequestId id;
    double started;
  };

  static RequestId IdOf(const std::string& body) {
    RequestId id;
    id.job = std::stoull(body);
    id.index = std::stoull(body.substr(body.find(' ')));
    return id;
  }
  MonotonicTime Now() const { return fleet_.clock_.Now(); }

  void Finish(CallId call, bool aborted) {
    const auto found = calls_.find(call);
    if (found == calls_.end()) return;
    const Call ended = found->second;
    calls_.erase(found);
    fleet_.Book();
    --fleet_.calling_[ended.id.job - 1];
    CallOutcome outcome;
    outcome.id = call;
    outcome.timing.set_ttft_ms(-1);
    outcome.timing.set_latency_ms(std::llround((fleet_.now() - ended.started) * 1000));
    if (!aborted) {
      outcome.transport = Transport::kComplete;
      outcome.http_status = 200;
      outcome.body = "{}";
      outcome.body_is_json = outcome.has_answer = true;
      outcome.usage.set_known(true);
      outcome.usage.set_completion_tokens(10);
    }
    runner_->OnCallFinished(std::move(outcome), Now());
    Settle();
  }

  // At the coordinator.
  void Arrive(v1::WorkerMessage& message) {
    Dispatcher& dispatcher = *fleet_.dispatcher_;
    const MonotonicTime now = Now();
    if (message.has_hello()) {
      auto reply = dispatcher.OnHello(message.hello(), now, fleet_.clock_.WallNow());
      NIGHTSHIFT_CHECK(reply.ok(), "a worker is refused");
      number = reply->worker;
      v1::CoordinatorMessage welcome;
      *welcome.mutable_welcome() = reply->welcome;
      Receive(std::move(welcome));
    } else if (message.has_report()) {
      dispatcher.OnReport(number, message.report(), now);
    } else if (message.has_returned()) {
      dispatcher.OnReturned(number, message.returned(), now);
    } else if (message.has_results()) {
      v1::CoordinatorMessage acknowledge;
      for (v1::AttemptResult& result : *message.mutable_results()->mutable_results()) {
        acknowledge.mutable_acknowledge()->add_sequences(result.sequence());
        fleet_.arrived_.push_back({number, std::move(result)});
      }
      fleet_.WakeCommit();
      Receive(std::move(acknowledge));
    }
  }

  void Settle() {
    const MonotonicTime next = runner_->OnTimer(Now());
    if (next.infinite() || next == timer_) return;
    timer_ = next;
    fleet_.After(next - Now(), [this, next] {
      if (timer_ != next) return;
      timer_ = MonotonicTime();
      Settle();
    });
  }

  Fleet& fleet_;
  const FleetBackend backend_;
  const std::string name_;
  std::unique_ptr<Runner> runner_;
  std::map<CallId, Call> calls_;
  MonotonicTime timer_;
};

Fleet::Fleet(std::vector<FleetBackend> backends, std::vector<FleetJob> jobs, uint64_t seed,
             bool speculates)
    : random_(seed), jobs_(std::move(jobs)), backends_(std::move(backends)) {
  DispatcherOptions options;
  options.speculates = speculates;
  dispatcher_ = std::make_unique<Dispatcher>(options);
  dispatcher_->SetWakeUp([this] { WakeGrants(); });
  outcomes_.resize(jobs_.size());
  calling_.resize(jobs_.size());
  work_.resize(jobs_.size());
  booked_ = clock_.Now();
  for (size_t job = 0; job < jobs_.size(); ++job) {
    const FleetJob& given = jobs_[job];
    const double variance = std::log(1 + given.work_cv * given.work_cv);
    for (int64_t i = 0; i < given.requests; ++i) {
      work_[job].push_back(
          random_.LogNormal(given.work_mean * std::exp(-variance / 2), std::sqrt(variance)));
      if (random_.Chance(given.straggler_share)) {
        stragglers_.insert({NumberOf(job), static_cast<uint64_t>(i)});
      }
    }
    After(absl::Seconds(given.submit_at), [this, job] {
      JobCommand seal = Seal(NumberOf(job), jobs_[job].requests);
      *seal.record.mutable_options() = jobs_[job].options;
      const Committed done = Commit(*dispatcher_, disk_, clock_, {}, {seal});
      NIGHTSHIFT_CHECK(done.statuses[0].ok(), "a job is refused");
    });
  }
  for (size_t place = 0; place < backends_.size(); ++place) {
    nodes_.push_back(std::make_unique<Node>(*this, place, backends_[place]));
  }
  EverySecond();
}

Fleet::~Fleet() = default;

double Fleet::Seconds(MonotonicTime time) {
  return absl::ToDoubleSeconds(time - FakeClock().Now());
}

void Fleet::After(absl::Duration delay, std::function<void()> what) {
  events_.push({(clock_.Now() + delay).nanos, ++last_event_, std::move(what)});
}

void Fleet::EverySecond() {
  dispatcher_->Tick(clock_.Now());
  for (const JobNumber job : dispatcher_->ExpiredJobs(clock_.Now(), clock_.WallNow())) {
    Commit(*dispatcher_, disk_, clock_, {}, {Command(JobCommand::Kind::kExpire, job)});
  }
  After(absl::Seconds(1), [this] { EverySecond(); });
}

void Fleet::Run(double seconds) {
  while (!events_.empty()) {
    const bool all = std::all_of(outcomes_.begin(), outcomes_.end(),
                                 [](const Outcome& outcome) { return outcome.ended >= 0; });
    if (all || Seconds(MonotonicTime{events_.top().at}) > seconds) break;
    Event event = events_.top();
    events_.pop();
    clock_.Advance(MonotonicTime{event.at} - clock_.Now());
    event.what();
  }
  Book();
}

void Fleet::Book() {
  const double seconds = absl::ToDoubleSeconds(clock_.Now() - booked_);
  booked_ = clock_.Now();
  for (size_t job = 0; job < jobs_.size(); ++job) {
    outcomes_[job].slot_seconds += seconds * static_cast<double>(calling_[job]);
  }
}

double Fleet::WorkOf(const RequestId& id) {
  const double work = work_[id.job - 1][id.index];
  return stragglers_.erase(id) > 0 ? work * jobs_[id.job - 1].straggle : work;
}

double Fleet::LowerBound() const {
  double work = 0;
  for (const std::vector<double>& of_job : work_) {
    for (const double one : of_job) work += one;
  }
  // From one change of speed to the next.
  std::set<double> changes;
  for (const FleetBackend& backend : backends_) changes.insert(backend.slow_from);
  double now = 0;
  for (const double change : changes) {
    double capacity = 0;
    for (const FleetBackend& backend : backends_) {
      const double slower = now >= backend.slow_from ? backend.slower : 1;
      capacity += backend.slots * backend.speed / slower;
    }
    if (work <= capacity * (change - now)) return now + work / capacity;
    work -= capacity * (change - now);
    now = change;
  }
  double capacity = 0;
  for (const FleetBackend& backend : backends_) {
    capacity += backend.slots * backend.speed / backend.slower;
  }
  return now + work / capacity;
}

void Fleet::WakeGrants() {
  if (std::exchange(grants_wait_, true)) return;
  After(absl::ZeroDuration(), [this] { PlanAndSend(); });
}

void Fleet::PlanAndSend() {
  grants_wait_ = false;
  const GrantPlan plan = dispatcher_->PlanGrants(clock_.Now());
  for (const JobNumber job : plan.frontier_moved) {
    Commit(*dispatcher_, disk_, clock_, {}, {Command(JobCommand::Kind::kFrontier, job)});
  }
  for (const Outgoing& recall : plan.recalls) Send(recall);
  for (const Grant& grant : plan.grants) SendLease(grant);
  if (plan.next_due <= clock_.Now()) WakeGrants();
  if (!plan.next_due.infinite() && plan.next_due > clock_.Now() && plan.next_due != grants_due_) {
    grants_due_ = plan.next_due;
    After(plan.next_due - clock_.Now(), [this] { WakeGrants(); });
  }
}

void Fleet::SendLease(const Grant& grant) {
  v1::CoordinatorMessage message;
  v1::Lease& lease = *message.mutable_lease();
  lease.set_id(grant.lease_id);
  lease.set_backend(grant.backend);
  for (const Grant::Item& item : grant.items) {
    v1::LeasedRequest& request = *lease.add_requests();
    request.mutable_key()->set_job(item.id.job);
    request.mutable_key()->set_index(item.id.index);
    request.set_endpoint(v1::ENDPOINT_CHAT_COMPLETIONS);
    request.set_body(Node::BodyOf(item.id));
    request.set_attempt(item.attempt);
    request.set_run(item.run);
    request.set_priority(item.priority);
  }
  Send({grant.worker, std::move(message)});
}

void Fleet::Send(const Outgoing& outgoing) {
  for (const auto& node : nodes_) {
    if (node->number == outgoing.worker) node->Receive(outgoing.message);
  }
}

void Fleet::WakeCommit() {
  if (std::exchange(commit_waits_, true)) return;
  After(kCommitEvery, [this] { CommitArrived(); });
}

void Fleet::CommitArrived() {
  commit_waits_ = false;
  const std::vector<ResultEvent> results = std::exchange(arrived_, {});
  const Committed done = Commit(*dispatcher_, disk_, clock_, results, {});
  for (const Outgoing& outgoing : done.outgoing) Send(outgoing);
  while (dispatcher_->HasInternalWork()) Commit(*dispatcher_, disk_, clock_, {}, {});
  for (size_t job = 0; job < jobs_.size(); ++job) {
    if (outcomes_[job].ended >= 0) continue;
    const auto status = dispatcher_->GetStatus(NumberOf(job), clock_.Now());
    if (!status.ok()) continue;
    outcomes_[job].status = *status;
    if (status->finished_at_ms() > 0) outcomes_[job].ended = now();
  }
}

}  // namespace nightshift::sim
