package peer;

/** Work between messages, and draws: what `enact_workloads::savina` has under these names. */
final class Kernels {
    /** Not final, so that nobody computes its sine beforehand. */
    private static double angle = 37.2;

    private Kernels() {}

    /** The sine of a constant, squared. */
    static void sine() {
        var sine = Math.sin(angle);
        if (sine * sine <= 0.0) {
            throw new ArithmeticException("a square is not negative, and this one not zero");
        }
    }

    /** The suite's own generator. */
    static final class Lcg16 {
        private long state;

        Lcg16(long seed) {
            state = seed;
        }

        int below(int bound) {
            state = (state * 1309 + 13_849) % 65_536;
            return (int) (state % bound);
        }
    }
}
