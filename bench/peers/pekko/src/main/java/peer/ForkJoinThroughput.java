package peer;

import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.Behaviors;

/** Fork-join, throughput. */
final class ForkJoinThroughput implements Program {
    private final long messages;
    private final int actors;
    private final List<ActorRef<Work>> workers = new ArrayList<>();
    private final Reports<Long> processed = new Reports<>();

    ForkJoinThroughput(JsonObject parameters) {
        messages = parameters.get("messages").getAsLong();
        actors = parameters.get("actors").getAsInt();
    }

    private enum Work {
        WORK
    }

    private final class Worker extends Stage.Actor<Work> {
        private long done;

        Worker(Stage.Arrival<Work> arrival) {
            super(arrival);
        }

        @Override
        Behavior<Work> on(Work message) {
            Kernels.sine();
            done++;
            if (done < messages) {
                return this;
            }
            processed.give(done);
            return Behaviors.stopped();
        }
    }

    @Override
    public void begin(Stage.Nursery nursery) {
        for (int id = 0; id < actors; id++) {
            workers.add(nursery.spawn(Worker::new));
        }
    }

    @Override
    public void outside() {
        for (long round = 0; round < messages; round++) {
            for (var worker : workers) {
                worker.tell(Work.WORK);
            }
        }
    }

    @Override
    public Object found() {
        return processed.all();
    }
}
