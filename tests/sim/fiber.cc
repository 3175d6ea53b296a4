#include "tests/sim/fiber.h"

#include <sys/mman.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"

namespace nightshift::sim {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;
// Below the stack, never to be touched: what runs over its end is to be seen at once.
constexpr size_t kGuardBytes = size_t{64} << 10;

Fiber* g_current = nullptr;

// Stacks of fibers that have ended: a simulation makes thousands, few at a time.
std::vector<char*>& SpareStacks() {
  static auto* const stacks = new std::vector<char*>();
  return *stacks;
}

char* TakeStack() {
  std::vector<char*>& spare = SpareStacks();
  if (!spare.empty()) {
    char* const stack = spare.back();
    spare.pop_back();
    return stack;
  }
  void* const memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  NIGHTSHIFT_CHECK(memory != MAP_FAILED, "no memory for a stack");
  mprotect(memory, kGuardBytes, PROT_NONE);
  return static_cast<char*>(memory) + kGuardBytes;
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {}

Fiber::~Fiber() {
  NIGHTSHIFT_CHECK(ended_ || !started_, "a fiber is given up in the middle");
  if (stack_ != nullptr) SpareStacks().push_back(stack_);
}

void Fiber::Resume() {
  NIGHTSHIFT_CHECK(g_current == nullptr, "a fiber resumes another");
  NIGHTSHIFT_CHECK(!ended_, "a fiber that has ended is resumed");
  if (!started_) {
    started_ = true;
    stack_ = TakeStack();
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_;
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = &resumer_;
    makecontext(&context_, &Fiber::Main, 0);
  }
  g_current = this;
  swapcontext(&resumer_, &context_);
  g_current = nullptr;
}

void Fiber::Main() {
  Fiber* const self = g_current;
  self->body_();
  self->body_ = nullptr;
  self->ended_ = true;
  // Returning goes on at uc_link, which is in Resume.
}

void Fiber::Yield() {
  Fiber* const self = g_current;
  NIGHTSHIFT_CHECK(self != nullptr, "a wait outside of any fiber");
  swapcontext(&self->context_, &self->resumer_);
}

Fiber* Fiber::Current() { return g_current; }

}  // namespace nightshift::sim
