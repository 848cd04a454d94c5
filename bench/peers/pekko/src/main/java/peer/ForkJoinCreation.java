package peer;

import com.google.gson.JsonObject;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.Behaviors;

/** Fork-join, creation. */
final class ForkJoinCreation implements Program {
    private final int actors;
    private final Reports<Boolean> ended = new Reports<>();

    ForkJoinCreation(JsonObject parameters) {
        actors = parameters.get("actors").getAsInt();
    }

    private enum Work {
        WORK
    }

    private final class Worker extends Stage.Actor<Work> {
        Worker(Stage.Arrival<Work> arrival) {
            super(arrival);
        }

        @Override
        Behavior<Work> on(Work message) {
            Kernels.sine();
            ended.give(true);
            return Behaviors.stopped();
        }
    }

    @Override
    public void begin(Stage.Nursery nursery) {
        for (int id = 0; id < actors; id++) {
            ActorRef<Work> worker = nursery.spawn(Worker::new);
            worker.tell(Work.WORK);
        }
    }

    @Override
    public Object found() {
        return ended.all().size();
    }
}
