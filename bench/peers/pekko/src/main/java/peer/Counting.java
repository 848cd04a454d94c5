package peer;

import com.google.gson.JsonObject;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.Behaviors;

/** Counting. */
final class Counting implements Program {
    private final long messages;
    private final Reports<Long> counts = new Reports<>();

    Counting(JsonObject parameters) {
        messages = parameters.get("messages").getAsLong();
    }

    private interface ToProducer {}

    private enum Produce implements ToProducer {
        PRODUCE
    }

    private record Result(long count) implements ToProducer {}

    private interface ToCounter {}

    private enum Increment implements ToCounter {
        INCREMENT
    }

    private record Retrieve(ActorRef<ToProducer> sender) implements ToCounter {}

    private final class Producer extends Stage.Actor<ToProducer> {
        private final ActorRef<ToCounter> counter;

        Producer(Stage.Arrival<ToProducer> arrival, ActorRef<ToCounter> counter) {
            super(arrival);
            this.counter = counter;
        }

        @Override
        Behavior<ToProducer> on(ToProducer message) {
            if (message instanceof Result result) {
                counts.give(result.count);
                return Behaviors.stopped();
            }
            for (long sent = 0; sent < messages; sent++) {
                counter.tell(Increment.INCREMENT);
            }
            counter.tell(new Retrieve(self()));
            return this;
        }
    }

    private static final class Counter extends Stage.Actor<ToCounter> {
        private long count;

        Counter(Stage.Arrival<ToCounter> arrival) {
            super(arrival);
        }

        @Override
        Behavior<ToCounter> on(ToCounter message) {
            if (message instanceof Retrieve retrieve) {
                retrieve.sender.tell(new Result(count));
                return Behaviors.stopped();
            }
            count++;
            return this;
        }
    }

    @Override
    public void begin(Stage.Nursery nursery) {
        ActorRef<ToCounter> counter = nursery.spawn(Counter::new);
        ActorRef<ToProducer> producer = nursery.spawn(arrival -> new Producer(arrival, counter));
        producer.tell(Produce.PRODUCE);
    }

    @Override
    public Object found() {
        return counts.only();
    }
}
