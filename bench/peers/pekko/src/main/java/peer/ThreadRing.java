package peer;

import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.Behaviors;

/** Thread ring. */
final class ThreadRing implements Program {
    private final int actors;
    private final long hops;
    private final Reports<Integer> last = new Reports<>();
    private final Reports<Long> exits = new Reports<>();

    ThreadRing(JsonObject parameters) {
        actors = parameters.get("actors").getAsInt();
        hops = parameters.get("hops").getAsLong();
    }

    private interface ToMember {}

    private record Join(ActorRef<ToMember> next) implements ToMember {}

    private record Ping(long left) implements ToMember {}

    private record Exit(int left) implements ToMember {}

    private final class Member extends Stage.Actor<ToMember> {
        private final int id;
        private ActorRef<ToMember> next;
        private long visits;

        Member(Stage.Arrival<ToMember> arrival, int id) {
            super(arrival);
            this.id = id;
        }

        @Override
        Behavior<ToMember> on(ToMember message) {
            if (message instanceof Ping ping) {
                visits++;
                if (ping.left > 0) {
                    next.tell(new Ping(ping.left - 1));
                } else {
                    last.give(id);
                    next.tell(new Exit(actors));
                }
                return this;
            }
            if (message instanceof Join join) {
                next = join.next;
                return this;
            }
            if (((Exit) message).left > 0) {
                next.tell(new Exit(((Exit) message).left - 1));
            }
            exits.give(visits);
            return Behaviors.stopped();
        }
    }

    @Override
    public void begin(Stage.Nursery nursery) {
        var members = new ArrayList<ActorRef<ToMember>>();
        for (int id = 0; id < actors; id++) {
            int own = id;
            members.add(nursery.spawn(arrival -> new Member(arrival, own)));
        }
        for (int id = 0; id < actors; id++) {
            members.get(id).tell(new Join(members.get((id + 1) % actors)));
        }
        members.get(0).tell(new Ping(hops));
    }

    private record Found(Integer last, List<Long> visits) {}

    @Override
    public Object found() {
        return new Found(last.only(), exits.all());
    }
}
