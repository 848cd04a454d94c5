// Thread ring.
#include "program.hpp"

namespace {

using Join = caf::atom_constant<caf::atom("join")>;
using Ping = caf::atom_constant<caf::atom("ping")>;
using Exit = caf::atom_constant<caf::atom("exit")>;

class ThreadRing : public Program {
public:
  explicit ThreadRing(const Parameters& parameters)
    : actors_(parameters.at("actors")), hops_(parameters.at("hops")) {}

  void start(caf::actor_system& system) override {
    std::vector<caf::actor> members;
    for (size_t id = 0; id < actors_; ++id)
      members.push_back(system.spawn(member_actor, this, id));
    for (size_t id = 0; id < actors_; ++id)
      caf::anon_send(members[id], Join::value, members[(id + 1) % actors_]);
    caf::anon_send(members[0], Ping::value, hops_);
  }

  nlohmann::json found() override {
    return {{"last", last_.only()}, {"visits", visits_.all()}};
  }

private:
  // Ends with its actor, and with it the circle.
  struct MemberState {
    caf::actor next;
    uint64_t visits = 0;
  };

  static caf::behavior member_actor(caf::stateful_actor<MemberState>* self, ThreadRing* run, size_t id) {
    return {
      [=](Ping, uint64_t left) {
        ++self->state.visits;
        if (left > 0) {
          self->send(self->state.next, Ping::value, left - 1);
          return;
        }
        run->last_.give(id);
        self->send(self->state.next, Exit::value, uint64_t{run->actors_});
      },
      [=](Join, const caf::actor& next) { self->state.next = next; },
      [=](Exit, uint64_t left) {
        if (left > 0)
          self->send(self->state.next, Exit::value, left - 1);
        run->visits_.give(self->state.visits);
        self->quit();
      },
    };
  }

  size_t actors_;
  uint64_t hops_;
  Reports<size_t> last_;
  Reports<uint64_t> visits_;
};

} // namespace

std::unique_ptr<Program> thread_ring(const Parameters& parameters) {
  return std::make_unique<ThreadRing>(parameters);
}
