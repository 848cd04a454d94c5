package peer;

/** One run of a benchmark. */
interface Program {
    /** Makes the actors and sends the first messages, in a turn of the guardian: users have no other place for that. */
    void begin(Stage.Nursery nursery);

    /** Goes on outside of actors, on the thread that started the run. */
    default void outside() {}

    /** What the actors have reported, once all of them have ended; the same as the actors of Enact report. */
    Object found();
}
