// Fork-join, throughput.
#include "program.hpp"

namespace {

using Work = caf::atom_constant<caf::atom("work")>;

class ForkJoinThroughput : public Program {
public:
  explicit ForkJoinThroughput(const Parameters& parameters)
    : messages_(parameters.at("messages")), actors_(parameters.at("actors")) {}

  void start(caf::actor_system& system) override {
    std::vector<caf::actor> workers;
    for (size_t id = 0; id < actors_; ++id)
      workers.push_back(system.spawn(worker_actor, this));
    for (uint64_t round = 0; round < messages_; ++round)
      for (const auto& worker : workers)
        caf::anon_send(worker, Work::value);
  }

  nlohmann::json found() override {
    return processed_.all();
  }

private:
  struct WorkerState {
    uint64_t done = 0;
  };

  static caf::behavior worker_actor(caf::stateful_actor<WorkerState>* self, ForkJoinThroughput* run) {
    return {
      [=](Work) {
        sine();
        if (++self->state.done == run->messages_) {
          run->processed_.give(self->state.done);
          self->quit();
        }
      },
    };
  }

  uint64_t messages_;
  size_t actors_;
  Reports<uint64_t> processed_;
};

} // namespace

std::unique_ptr<Program> fork_join_throughput(const Parameters& parameters) {
  return std::make_unique<ForkJoinThroughput>(parameters);
}
