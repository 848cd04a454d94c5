package peer;

import com.google.gson.JsonObject;
import java.util.Arrays;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.Behaviors;

/** Ping pong. */
final class PingPong implements Program {
    private final long pings;
    private final Reports<Long> receivedPings = new Reports<>();
    private final Reports<Long> receivedPongs = new Reports<>();

    PingPong(JsonObject parameters) {
        pings = parameters.get("pings").getAsLong();
    }

    private enum ToPing {
        PING,
        PONG
    }

    private interface ToPong {}

    private record Pinged(ActorRef<ToPing> sender) implements ToPong {}

    private enum Exit implements ToPong {
        EXIT
    }

    private final class Ping extends Stage.Actor<ToPing> {
        private final ActorRef<ToPong> pong;
        private long left = pings;
        private long received;

        Ping(Stage.Arrival<ToPing> arrival, ActorRef<ToPong> pong) {
            super(arrival);
            this.pong = pong;
        }

        @Override
        Behavior<ToPing> on(ToPing message) {
            if (message == ToPing.PING) {
                left--;
                pong.tell(new Pinged(self()));
                return this;
            }
            received++;
            if (left > 0) {
                self().tell(ToPing.PING);
                return this;
            }
            pong.tell(Exit.EXIT);
            receivedPongs.give(received);
            return Behaviors.stopped();
        }
    }

    private final class Pong extends Stage.Actor<ToPong> {
        private long received;

        Pong(Stage.Arrival<ToPong> arrival) {
            super(arrival);
        }

        @Override
        Behavior<ToPong> on(ToPong message) {
            if (message instanceof Pinged pinged) {
                received++;
                pinged.sender.tell(ToPing.PONG);
                return this;
            }
            receivedPings.give(received);
            return Behaviors.stopped();
        }
    }

    @Override
    public void begin(Stage.Nursery nursery) {
        var pong = nursery.spawn(Pong::new);
        ActorRef<ToPing> ping = nursery.spawn(arrival -> new Ping(arrival, pong));
        ping.tell(ToPing.PING);
    }

    @Override
    public Object found() {
        return Arrays.asList(receivedPings.only(), receivedPongs.only());
    }
}
