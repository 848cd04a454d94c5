// Counting.
#include "program.hpp"

namespace {

using Produce = caf::atom_constant<caf::atom("produce")>;
using Increment = caf::atom_constant<caf::atom("increment")>;
using Retrieve = caf::atom_constant<caf::atom("retrieve")>;
using Result = caf::atom_constant<caf::atom("result")>;

class Counting : public Program {
public:
  explicit Counting(const Parameters& parameters) : messages_(parameters.at("messages")) {}

  void start(caf::actor_system& system) override {
    const auto counter = system.spawn(counter_actor);
    const auto producer = system.spawn(producer_actor, this, counter);
    caf::anon_send(producer, Produce::value);
  }

  nlohmann::json found() override {
    return counts_.only();
  }

private:
  static caf::behavior producer_actor(caf::event_based_actor* self, Counting* run, const caf::actor& counter) {
    return {
      [=](Produce) {
        for (uint64_t sent = 0; sent < run->messages_; ++sent)
          self->send(counter, Increment::value);
        self->send(counter, Retrieve::value, caf::actor{self});
      },
      [=](Result, uint64_t count) {
        run->counts_.give(count);
        self->quit();
      },
    };
  }

  struct CounterState {
    uint64_t count = 0;
  };

  static caf::behavior counter_actor(caf::stateful_actor<CounterState>* self) {
    return {
      [=](Increment) { ++self->state.count; },
      [=](Retrieve, const caf::actor& sender) {
        self->send(sender, Result::value, self->state.count);
        self->quit();
      },
    };
  }

  uint64_t messages_;
  Reports<uint64_t> counts_;
};

} // namespace

std::unique_ptr<Program> counting(const Parameters& parameters) {
  return std::make_unique<Counting>(parameters);
}
