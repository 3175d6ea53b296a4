// The threads of a server of cpp-httplib, one per connection: made when they are needed, up to a
// maximum, and kept. The library's own pool queues connections behind those that are idle.
#ifndef NIGHTSHIFT_BASE_THREADS_ON_DEMAND_H_
#define NIGHTSHIFT_BASE_THREADS_ON_DEMAND_H_

#include <cstddef>
#include <functional>

namespace httplib {
class TaskQueue;
}

namespace nightshift {

// For Server::new_task_queue, which owns it. A connection for which there is no thread, or for
// which the system gives none, is served on the accepting thread with TurnsAway() true: say so and
// close. `stack_bytes` of each thread: the library matches paths with std::regex, which recurses
// with every byte of the path. `make_room` is asked first, where there is one, on the accepting
// thread: true when it has just ended a connection, whose thread will soon be free for this one.
httplib::TaskQueue* NewThreadsOnDemand(size_t threads_max, size_t stack_bytes,
                                       std::function<bool()> make_room = nullptr);

// Whether the connection being served on this thread has to be turned away.
bool TurnsAway();

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_THREADS_ON_DEMAND_H_
