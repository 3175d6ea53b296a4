// A body of code with a stack of its own, which can be left in the middle and gone on with later.
// The simulation runs the product's blocking code in fibers: a "thread" that waits for a commit
// simply is not resumed until simulated time has come that far, and everything stays in one real
// thread, in an order that a seed decides.
//
// Not thread-safe. No lock may be held across Yield.
#ifndef NIGHTSHIFT_TESTS_SIM_FIBER_H_
#define NIGHTSHIFT_TESTS_SIM_FIBER_H_

#include <ucontext.h>

#include <functional>

namespace nightshift::sim {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  // It must have ended, or never have been resumed: what is on its stack would be lost.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body from where it stands until it yields or ends. Not from another fiber.
  void Resume();
  bool ended() const { return ended_; }

  // Goes back to whoever resumed the fiber that runs now.
  static void Yield();
  // The fiber that runs now; null outside of any.
  static Fiber* Current();

 private:
  static void Main();

  std::function<void()> body_;
  ucontext_t context_;
  ucontext_t resumer_;
  char* stack_ = nullptr;
  bool started_ = false;
  bool ended_ = false;
};

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_FIBER_H_
