// Fork-join, creation.
#include "program.hpp"

namespace {

using Work = caf::atom_constant<caf::atom("work")>;

class ForkJoinCreation : public Program {
public:
  explicit ForkJoinCreation(const Parameters& parameters) : actors_(parameters.at("actors")) {}

  void start(caf::actor_system& system) override {
    for (size_t id = 0; id < actors_; ++id)
      caf::anon_send(system.spawn(worker_actor, this), Work::value);
  }

  nlohmann::json found() override {
    return ended_.all().size();
  }

private:
  static caf::behavior worker_actor(caf::event_based_actor* self, ForkJoinCreation* run) {
    return {
      [=](Work) {
        sine();
        run->ended_.give(1);
        self->quit();
      },
    };
  }

  size_t actors_;
  Reports<int> ended_;
};

} // namespace

std::unique_ptr<Program> fork_join_creation(const Parameters& parameters) {
  return std::make_unique<ForkJoinCreation>(parameters);
}
