package peer;

import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.Behaviors;

/** Big. */
final class Big implements Program {
    /** Whose pong comes first: nobody's. */
    private static final int NOBODY = -1;

    private final long pings;
    private final int workers;
    private final Reports<List<Long>> reports = new Reports<>();

    Big(JsonObject parameters) {
        pings = parameters.get("pings").getAsLong();
        workers = parameters.get("workers").getAsInt();
    }

    private interface ToWorker {}

    private record Meet(List<ActorRef<ToWorker>> workers, ActorRef<ToSink> sink) implements ToWorker {}

    private record Ping(int sender) implements ToWorker {}

    private record Pong(int sender) implements ToWorker {}

    private enum Exit implements ToWorker {
        EXIT
    }

    private interface ToSink {}

    private record Introduce(List<ActorRef<ToWorker>> workers) implements ToSink {}

    private enum WorkerExit implements ToSink {
        EXIT
    }

    private final class Worker extends Stage.Actor<ToWorker> {
        private final int id;
        private final Kernels.Lcg16 draws;
        private long left = pings;
        private int expected = NOBODY;
        private long received;
        private long unexpected;
        private List<ActorRef<ToWorker>> neighbours;
        private ActorRef<ToSink> sink;

        Worker(Stage.Arrival<ToWorker> arrival, int id) {
            super(arrival);
            this.id = id;
            draws = new Kernels.Lcg16(id);
        }

        @Override
        Behavior<ToWorker> on(ToWorker message) {
            if (message instanceof Ping ping) {
                received++;
                neighbours.get(ping.sender).tell(new Pong(id));
            } else if (message instanceof Pong pong) {
                pong(pong.sender);
            } else if (message instanceof Meet meet) {
                neighbours = meet.workers;
                sink = meet.sink;
            } else {
                reports.give(List.of((long) id, received, unexpected));
                return Behaviors.stopped();
            }
            return this;
        }

        private void pong(int sender) {
            if (sender != expected) {
                unexpected++;
            }
            if (left == 0) {
                sink.tell(WorkerExit.EXIT);
                return;
            }
            left--;
            expected = draws.below(neighbours.size());
            neighbours.get(expected).tell(new Ping(id));
        }
    }

    private static final class Sink extends Stage.Actor<ToSink> {
        private int exits;
        private List<ActorRef<ToWorker>> workers;

        Sink(Stage.Arrival<ToSink> arrival) {
            super(arrival);
        }

        @Override
        Behavior<ToSink> on(ToSink message) {
            if (message instanceof Introduce introduce) {
                workers = introduce.workers;
                return this;
            }
            exits++;
            if (exits < workers.size()) {
                return this;
            }
            workers.forEach(worker -> worker.tell(Exit.EXIT));
            return Behaviors.stopped();
        }
    }

    @Override
    public void begin(Stage.Nursery nursery) {
        ActorRef<ToSink> sink = nursery.spawn(Sink::new);
        var all = new ArrayList<ActorRef<ToWorker>>();
        for (int id = 0; id < workers; id++) {
            int own = id;
            all.add(nursery.spawn(arrival -> new Worker(arrival, own)));
        }
        sink.tell(new Introduce(all));
        all.forEach(worker -> worker.tell(new Meet(all, sink)));
        all.forEach(worker -> worker.tell(new Pong(NOBODY)));
    }

    @Override
    public Object found() {
        var all = reports.all();
        all.sort(Comparator.comparing(report -> report.get(0)));
        return all;
    }
}
