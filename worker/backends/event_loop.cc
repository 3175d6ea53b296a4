#include "worker/backends/event_loop.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

// After a call died on a connection from the pool, calls to that backend take new ones for this
// long.
constexpr absl::Duration kFreshConnectionsAfterStale = absl::Seconds(1);

// Far above what a backend can use; more is a mistake of the caller's.
constexpr size_t kCallsMax = 65536;

uint32_t EpollEvents(int curl_poll) {
  switch (curl_poll) {
    case CURL_POLL_IN:
      return EPOLLIN;
    case CURL_POLL_OUT:
      return EPOLLOUT;
    case CURL_POLL_INOUT:
      return EPOLLIN | EPOLLOUT;
    default:
      return 0;
  }
}

int CurlEvents(uint32_t epoll_events) {
  int events = 0;
  if (epoll_events & EPOLLIN) events |= CURL_CSELECT_IN;
  if (epoll_events & EPOLLOUT) events |= CURL_CSELECT_OUT;
  if (epoll_events & (EPOLLERR | EPOLLHUP)) events |= CURL_CSELECT_ERR;
  return events;
}

// A connection per call: the usual soft limit of 1,024 files would be met long before the
// backend's.
void RaiseFileLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Create(Options options, Clock& clock) {
  auto loop = std::make_unique<CurlEventLoop>(clock);
  RETURN_IF_ERROR(loop->Open(std::move(options)));
  return std::unique_ptr<EventLoop>(std::move(loop));
}

CurlEventLoop::CurlEventLoop(Clock& clock)
    : clock_(clock),
      context_{.clock = &clock,
               .now = clock.Now(),
               .timers = {},
               .reader = {},
               .random = Random::FromSystem(),
               .response_bytes_max = 0,
               .turned_at = clock.Now()} {}

absl::Status CurlEventLoop::Open(Options options) {
  if (options.response_bytes_max <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("response_bytes_max must be positive, not ", options.response_bytes_max));
  }
  context_.response_bytes_max = options.response_bytes_max;
  InitCurlOnce();
  RaiseFileLimit();
  RETURN_IF_ERROR(watcher_.Create());
  wakeup_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wakeup_fd_ < 0)
    return absl::ResourceExhaustedError(absl::StrCat("eventfd: ", std::strerror(errno)));
  RETURN_IF_ERROR(watcher_.AddWakeup(wakeup_fd_));
  share_.reset(curl_share_init());
  NIGHTSHIFT_CHECK(share_ != nullptr, "out of memory");
  curl_share_setopt(share_.get(), CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
  curl_share_setopt(share_.get(), CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
  for (BackendSpec& spec : options.backends) {
    ASSIGN_OR_RETURN(std::unique_ptr<BackendTarget> target, BackendTarget::Create(std::move(spec)));
    backends_.emplace_back().target = std::move(target);
  }
  return absl::OkStatus();
}

CurlEventLoop::~CurlEventLoop() {
  for (const auto& [id, slot] : calls_) {
    curl_multi_remove_handle(shards_[slot->shard()]->multi.get(), slot->easy());
    slot->Drop();
  }
  calls_.clear();
  slots_.clear();
  shards_.clear();
  if (wakeup_fd_ >= 0) close(wakeup_fd_);
}

void CurlEventLoop::SetOnFinished(std::function<void(CallOutcome)> on_finished) {
  on_finished_ = std::move(on_finished);
}

void CurlEventLoop::SetOnTimer(std::function<MonotonicTime()> on_timer) {
  on_timer_ = std::move(on_timer);
}

// --- from other threads -----------------------------------------------------------------------

void CurlEventLoop::Post(std::function<void()> task) {
  bool first;
  {
    MutexLock lock(&mutex_);
    first = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  // Whoever made the queue non-empty has woken the loop already.
  if (first) eventfd_write(wakeup_fd_, 1);
}

void CurlEventLoop::Stop() {
  stopping_.store(true, std::memory_order_release);
  eventfd_write(wakeup_fd_, 1);
}

bool CurlEventLoop::RunTasks() {
  std::vector<std::function<void()>> tasks;
  {
    MutexLock lock(&mutex_);
    tasks.swap(tasks_);
  }
  for (const std::function<void()>& task : tasks) task();
  return !tasks.empty();
}

// --- libcurl's callbacks: they note, and change nothing ----------------------------------------

int CurlEventLoop::OnSocket(CURL*, curl_socket_t fd, int what, void* shard, void*) {
  const Shard& owner = *static_cast<Shard*>(shard);
  owner.loop->watcher_.Want(fd, EpollEvents(what), owner.number);
  return 0;
}

int CurlEventLoop::OnCurlTimer(CURLM*, long timeout_ms, void* shard) {
  Shard& owner = *static_cast<Shard*>(shard);
  owner.curl_due = timeout_ms < 0 ? MonotonicTime::Infinite()
                                  : owner.loop->context_.now + absl::Milliseconds(timeout_ms);
  return 0;
}

curl_socket_t CurlEventLoop::OnOpenSocket(void* loop, curlsocktype, curl_sockaddr* address) {
  const int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  if (fd < 0) return CURL_SOCKET_BAD;
  static_cast<CurlEventLoop*>(loop)->watcher_.Opened(fd);
  return fd;
}

int CurlEventLoop::OnCloseSocket(void* loop, curl_socket_t fd) {
  static_cast<CurlEventLoop*>(loop)->watcher_.Closing(fd);
  return close(fd);
}

// --- starting and giving up ---------------------------------------------------------------------

CurlEventLoop::Shard* CurlEventLoop::NewShard() {
  auto shard = std::make_unique<Shard>();
  shard->loop = this;
  shard->number = static_cast<int>(shards_.size());
  shard->multi.reset(curl_multi_init());
  NIGHTSHIFT_CHECK(shard->multi != nullptr, "out of memory");
  CURLM* const multi = shard->multi.get();
  curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, &CurlEventLoop::OnSocket);
  curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, shard.get());
  curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, &CurlEventLoop::OnCurlTimer);
  curl_multi_setopt(multi, CURLMOPT_TIMERDATA, shard.get());
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, long{kSlotsPerShard + kSlotsPerShard / 4});
  curl_multi_setopt(multi, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
  shards_.push_back(std::move(shard));
  return shards_.back().get();
}

CallSlot* CurlEventLoop::IdleSlot(Backend& backend) {
  if (!backend.idle.empty()) {
    CallSlot* const slot = backend.idle.back();
    backend.idle.pop_back();
    return slot;
  }
  if (backend.open_shard == nullptr || backend.open_shard->slots == kSlotsPerShard)
    backend.open_shard = NewShard();
  ++backend.open_shard->slots;
  slots_.push_back(std::make_unique<CallSlot>(
      static_cast<int>(slots_.size()), backend.open_shard->number, *backend.target, context_));
  CallSlot* const slot = slots_.back().get();
  SetOption(slot->easy(), CURLOPT_SHARE, share_.get());
  SetOption(slot->easy(), CURLOPT_OPENSOCKETFUNCTION, &CurlEventLoop::OnOpenSocket);
  SetOption(slot->easy(), CURLOPT_OPENSOCKETDATA, this);
  SetOption(slot->easy(), CURLOPT_CLOSESOCKETFUNCTION, &CurlEventLoop::OnCloseSocket);
  SetOption(slot->easy(), CURLOPT_CLOSESOCKETDATA, this);
  return slot;
}

void CurlEventLoop::Start(CallRequest request) {
  NIGHTSHIFT_CHECK(request.backend >= 0 && static_cast<size_t>(request.backend) < backends_.size(),
                   "a call names a backend that does not exist");
  NIGHTSHIFT_CHECK(calls_.size() < kCallsMax, "more calls in flight than any limit allows");
  Backend& backend = backends_[request.backend];
  CallSlot* const slot = IdleSlot(backend);
  const bool is_new = calls_.emplace(request.id, slot).second;
  NIGHTSHIFT_CHECK(is_new, "two calls with one id");
  context_.now = clock_.Now();
  if (!slot->Begin(std::move(request), clock_.WallNow(), context_.now < backend.fresh_until)) {
    Release(backend, *slot, slot->TakeUnsent());
    return;
  }
  Shard& shard = *shards_[slot->shard()];
  const CURLMcode code = curl_multi_add_handle(shard.multi.get(), slot->easy());
  NIGHTSHIFT_CHECK(code == CURLM_OK, curl_multi_strerror(code));
  ++shard.in_flight;
}

void CurlEventLoop::RemoveFromCurl(CallSlot& slot) {
  Shard& shard = *shards_[slot.shard()];
  const CURLMcode code = curl_multi_remove_handle(shard.multi.get(), slot.easy());
  NIGHTSHIFT_CHECK(code == CURLM_OK, curl_multi_strerror(code));
  --shard.in_flight;
}

void CurlEventLoop::Release(Backend& backend, CallSlot& slot, CallOutcome outcome) {
  calls_.erase(outcome.id);
  backend.idle.push_back(&slot);
  outcomes_.push_back(std::move(outcome));
}

void CurlEventLoop::SetDetected(int backend, const std::string& kind, bool native) {
  const BackendKind* const found = FindKind(kind);
  if (found != nullptr) backends_[backend].target->SetDetected(*found, native);
}

void CurlEventLoop::SetKey(int backend, const std::string& key) {
  backends_[backend].target->SetKey(key);
}

void CurlEventLoop::Abort(CallId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  CallSlot& slot = *found->second;
  context_.now = clock_.Now();
  Backend& backend = backends_[slot.request().backend];
  RemoveFromCurl(slot);
  Release(backend, slot, slot.TakeAborted());
}

// --- the rounds ---------------------------------------------------------------------------------

void CurlEventLoop::Act(Shard& shard, curl_socket_t fd, int events) {
  if (fd == CURL_SOCKET_TIMEOUT) shard.curl_due = MonotonicTime::Infinite();
  int running = 0;
  const CURLMcode code = curl_multi_socket_action(shard.multi.get(), fd, events, &running);
  NIGHTSHIFT_CHECK(code == CURLM_OK, curl_multi_strerror(code));
  if (running != shard.in_flight) shard.has_finished = true;
}

bool CurlEventLoop::RunCurlTimers() {
  bool any = false;
  for (const std::unique_ptr<Shard>& shard : shards_) {
    if (shard->curl_due > context_.now) continue;
    Act(*shard, CURL_SOCKET_TIMEOUT, 0);
    any = true;
  }
  return any;
}

bool CurlEventLoop::RunCallTimers() {
  bool any = false;
  for (;;) {
    const int number = context_.timers.PopDue(context_.now);
    if (number < 0) return any;
    CallSlot& slot = *slots_[number];
    CallSlot::Expiry expiry;
    if (!slot.Expired(expiry)) continue;
    Backend& backend = backends_[slot.request().backend];
    RemoveFromCurl(slot);
    Release(backend, slot, slot.TakeExpired(std::move(expiry), clock_.WallNow()));
    any = true;
  }
}

bool CurlEventLoop::CollectFinished() {
  bool any = false;
  for (const std::unique_ptr<Shard>& shard : shards_) {
    if (!shard->has_finished) continue;
    shard->has_finished = false;
    int left = 0;
    while (CURLMsg* const message = curl_multi_info_read(shard->multi.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      // The message goes with the handle's removal.
      const CURLcode code = message->data.result;
      void* found = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &found);
      CallSlot& slot = *static_cast<CallSlot*>(found);
      Backend& backend = backends_[slot.request().backend];
      RemoveFromCurl(slot);
      CallOutcome outcome = slot.TakeFinished(code, clock_.WallNow());
      if (outcome.transport == Transport::kStaleConnection)
        backend.fresh_until = context_.now + kFreshConnectionsAfterStale;
      Release(backend, slot, std::move(outcome));
      any = true;
    }
  }
  return any;
}

bool CurlEventLoop::HandOut() {
  if (outcomes_.empty()) return false;
  // Whoever takes an outcome may start and abort calls: new outcomes are for the next round.
  handing_out_.swap(outcomes_);
  for (CallOutcome& outcome : handing_out_) {
    if (on_finished_) on_finished_(std::move(outcome));
  }
  handing_out_.clear();
  return true;
}

int CurlEventLoop::WaitMillis(MonotonicTime timer_due) {
  if (!outcomes_.empty()) return 0;
  MonotonicTime due = std::min(timer_due, context_.timers.NextDue());
  for (const std::unique_ptr<Shard>& shard : shards_) {
    if (shard->has_finished) return 0;
    due = std::min(due, shard->curl_due);
  }
  if (!calls_.empty()) due = std::min(due, context_.now + kTurnMax);
  if (due.infinite()) return -1;
  const absl::Duration wait = due - clock_.Now();
  if (wait <= absl::ZeroDuration()) return 0;
  // Rounded up: a round too early would be one in vain.
  const int64_t millis =
      absl::ToInt64Milliseconds(wait + absl::Milliseconds(1) - absl::Nanoseconds(1));
  return static_cast<int>(std::min<int64_t>(millis, 3'600'000));
}

bool CurlEventLoop::Turn() {
  context_.now = clock_.Now();
  // Without a call it may have waited for however long.
  const bool stood_still = !calls_.empty() && context_.now - context_.turned_at > kStandstillMin;
  if (stood_still) context_.stood_still_until = context_.now;
  context_.turned_at = context_.now;
  return stood_still;
}

void CurlEventLoop::Run() {
  MonotonicTime timer_due = MonotonicTime::Infinite();
  bool happened = true;  // the first round: the owner's timer has its say
  while (!stopping_.load(std::memory_order_acquire)) {
    Turn();
    if (on_timer_ && (happened || timer_due <= context_.now)) timer_due = on_timer_();
    // What has just been started goes out before we wait.
    Turn();
    RunCurlTimers();
    happened = false;
    const std::vector<SocketWatcher::Ready>& all_ready = watcher_.Wait(WaitMillis(timer_due));
    const bool stood_still = Turn();
    const MonotonicTime polled_at = context_.now;
    for (const SocketWatcher::Ready& ready : all_ready) {
      context_.now = clock_.Now();
      if (ready.fd == wakeup_fd_) {
        eventfd_t count;
        eventfd_read(wakeup_fd_, &count);
        happened = RunTasks() || happened;
        continue;
      }
      const int shard = watcher_.StillWanted(ready);
      if (shard >= 0) Act(*shards_[shard], ready.fd, CurlEvents(ready.events));
      happened = true;
    }
    context_.now = clock_.Now();
    happened = RunCurlTimers() || happened;
    // Before a call is given up for its time, what has come for it counts: that is what the sockets
    // were asked for after that time.
    happened = CollectFinished() || happened;
    context_.now = polled_at;
    if (!stood_still) happened = RunCallTimers() || happened;
    happened = HandOut() || happened;
  }
}

}  // namespace nightshift
