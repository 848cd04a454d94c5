package peer;

import com.typesafe.config.ConfigFactory;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.ActorSystem;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.PostStop;
import org.apache.pekko.actor.typed.javadsl.AbstractBehavior;
import org.apache.pekko.actor.typed.javadsl.ActorContext;
import org.apache.pekko.actor.typed.javadsl.Behaviors;
import org.apache.pekko.actor.typed.javadsl.Receive;

/** An actor system that runs one program after the other, and knows when all actors of a program have ended. */
final class Stage implements AutoCloseable {
    private final ActorSystem<Run> system;

    Stage(int workers) {
        var threads = Map.of(
                "pekko.actor.default-dispatcher.fork-join-executor.parallelism-min", workers,
                "pekko.actor.default-dispatcher.fork-join-executor.parallelism-max", workers);
        var configuration = ConfigFactory.parseMap(threads).withFallback(ConfigFactory.load());
        system = ActorSystem.create(Behaviors.setup(Stage::guardian), "savina", configuration);
    }

    /** Runs {@code program} until its last actor has ended. */
    void play(Program program) throws InterruptedException {
        var run = new Run(program, new CountDownLatch(1), new Presence());
        system.tell(run);
        run.begun.await();
        program.outside();
        run.presence.leave();
        if (!run.presence.everybodyGone.await(15, TimeUnit.MINUTES)) {
            throw new IllegalStateException("it has not ended for a very long time");
        }
    }

    /** Lets the threads end, without which the program would not. */
    @Override
    public void close() {
        system.terminate();
    }

    private record Run(Program program, CountDownLatch begun, Presence presence) {}

    private static Behavior<Run> guardian(ActorContext<Run> context) {
        return Behaviors.receiveMessage(run -> {
            run.program.begin(new Nursery(context, run.presence));
            run.begun.countDown();
            return Behaviors.same();
        });
    }

    /** Counts the actors of a run that live, and who starts it. */
    static final class Presence {
        private final AtomicInteger present = new AtomicInteger(1);
        private final CountDownLatch everybodyGone = new CountDownLatch(1);

        private void leave() {
            if (present.decrementAndGet() == 0) {
                everybodyGone.countDown();
            }
        }
    }

    /** Where the actors of a run are made. */
    record Nursery(ActorContext<?> context, Presence presence) {
        <M> ActorRef<M> spawn(Function<Arrival<M>, Actor<M>> made) {
            presence.present.incrementAndGet();
            return context.spawnAnonymous(Behaviors.setup(own -> made.apply(new Arrival<>(own, presence))));
        }
    }

    /** What an actor is made with. */
    record Arrival<M>(ActorContext<M> context, Presence presence) {}

    /** An actor of a program: one method for all messages, so that none is looked up by its class. */
    abstract static class Actor<M> extends AbstractBehavior<M> {
        private final Presence presence;

        Actor(Arrival<M> arrival) {
            super(arrival.context());
            presence = arrival.presence();
        }

        abstract Behavior<M> on(M message);

        ActorRef<M> self() {
            return getContext().getSelf();
        }

        @Override
        public final Receive<M> createReceive() {
            return newReceiveBuilder().onAnyMessage(this::on).onSignal(PostStop.class, this::ended).build();
        }

        private Behavior<M> ended(PostStop signal) {
            presence.leave();
            return this;
        }
    }
}
