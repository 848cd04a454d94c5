package peer;

import com.google.gson.JsonObject;
import java.util.List;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.Behaviors;

/** Chameneos. */
final class Chameneos implements Program {
    private final int creatures;
    private final long meetings;
    private final Reports<Long> sum = new Reports<>();
    private final Reports<Object> ends = new Reports<>();

    Chameneos(JsonObject parameters) {
        creatures = parameters.get("creatures").getAsInt();
        meetings = parameters.get("meetings").getAsLong();
    }

    private enum Colour {
        Red,
        Yellow,
        Blue,
        Faded;

        private static final Colour[] ALL = values();

        /** What a creature of this colour becomes when it meets one of another. */
        Colour complement(Colour other) {
            if (this == other) {
                return this;
            }
            if (this == Faded || other == Faded) {
                return Faded;
            }
            // The numbers of the three lively ones add up to 3.
            return ALL[3 - ordinal() - other.ordinal()];
        }
    }

    private interface ToMall {}

    private record Arrived(Colour colour, ActorRef<ToCreature> sender) implements ToMall {}

    private record Count(long meetings) implements ToMall {}

    private interface ToCreature {}

    private enum Order implements ToCreature {
        START,
        EXIT
    }

    private record Meet(Colour colour, ActorRef<ToCreature> other) implements ToCreature {}

    private record Change(Colour colour) implements ToCreature {}

    private final class Mall extends Stage.Actor<ToMall> {
        private long left = meetings;
        private ActorRef<ToCreature> waiting;
        private int reported;
        private long met;

        Mall(Stage.Arrival<ToMall> arrival) {
            super(arrival);
        }

        @Override
        Behavior<ToMall> on(ToMall message) {
            if (message instanceof Arrived arrived) {
                meet(arrived);
                return this;
            }
            met += ((Count) message).meetings;
            reported++;
            if (reported < creatures) {
                return this;
            }
            sum.give(met);
            return Behaviors.stopped();
        }

        private void meet(Arrived arrived) {
            if (left == 0) {
                arrived.sender.tell(Order.EXIT);
            } else if (waiting == null) {
                waiting = arrived.sender;
            } else {
                left--;
                waiting.tell(new Meet(arrived.colour, arrived.sender));
                waiting = null;
            }
        }
    }

    private final class Creature extends Stage.Actor<ToCreature> {
        private final ActorRef<ToMall> mall;
        private Colour colour;
        private long met;

        Creature(Stage.Arrival<ToCreature> arrival, ActorRef<ToMall> mall, Colour colour) {
            super(arrival);
            this.mall = mall;
            this.colour = colour;
        }

        @Override
        Behavior<ToCreature> on(ToCreature message) {
            if (message instanceof Meet meet) {
                colour = colour.complement(meet.colour);
                met++;
                meet.other.tell(new Change(colour));
            } else if (message instanceof Change change) {
                colour = change.colour;
                met++;
            } else if (message == Order.EXIT) {
                colour = Colour.Faded;
                mall.tell(new Count(met));
                ends.give(List.of(colour, met));
                return Behaviors.stopped();
            }
            mall.tell(new Arrived(colour, self()));
            return this;
        }
    }

    @Override
    public void begin(Stage.Nursery nursery) {
        ActorRef<ToMall> mall = nursery.spawn(Mall::new);
        for (int id = 0; id < creatures; id++) {
            var colour = Colour.ALL[id % 3];
            ActorRef<ToCreature> creature = nursery.spawn(arrival -> new Creature(arrival, mall, colour));
            creature.tell(Order.START);
        }
    }

    private record Found(Long sum, List<Object> ends) {}

    @Override
    public Object found() {
        return new Found(sum.only(), ends.all());
    }
}
