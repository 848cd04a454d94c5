package peer;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;

/** What actors have reported. */
final class Reports<T> {
    private final ConcurrentLinkedQueue<T> given = new ConcurrentLinkedQueue<>();

    void give(T value) {
        given.add(value);
    }

    List<T> all() {
        return new ArrayList<>(given);
    }

    /** The only report; null if there is none, or another. */
    T only() {
        var all = all();
        return all.size() == 1 ? all.get(0) : null;
    }
}
