package peer;

import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.function.Function;
import org.apache.pekko.Version;

/**
 * Runs micro-benchmarks of the Savina suite on Pekko: {@code LIBRARY WORKERS}, or says its {@code --version}.
 *
 * <p>A line such as {@code ["pp", {"pings": 40000}]} asks for a run; the line {@code {"wall_ns": …, "cpu_ns": …,
 * "found": …}} answers, where {@code found} is what the actors reported. The program ends with its input.
 */
final class Main {
    private static final Map<String, Function<JsonObject, Program>> PROGRAMS = Map.of(
            "pp", PingPong::new,
            "count", Counting::new,
            "fjt", ForkJoinThroughput::new,
            "fjc", ForkJoinCreation::new,
            "thr", ThreadRing::new,
            "cham", Chameneos::new,
            "big", Big::new);

    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 1 && arguments[0].equals("--version")) {
            System.out.println(Version.current() + " on Java " + Runtime.version());
            return;
        }
        var gson = new GsonBuilder().serializeNulls().create();
        var questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var stage = new Stage(Integer.parseInt(arguments[1]))) {
            for (String line = questions.readLine(); line != null; line = questions.readLine()) {
                System.out.println(gson.toJson(answer(stage, JsonParser.parseString(line).getAsJsonArray())));
            }
        }
    }

    /** What a run took, and what it found. */
    private record Answer(long wall_ns, long cpu_ns, Object found) {}

    private static Answer answer(Stage stage, JsonArray question) throws InterruptedException {
        var name = question.get(0).getAsString();
        var made = PROGRAMS.get(name);
        if (made == null) {
            throw new IllegalArgumentException("there is no benchmark " + name);
        }
        var program = made.apply(question.get(1).getAsJsonObject());
        var cpu = SYSTEM.getProcessCpuTime();
        var started = System.nanoTime();
        stage.play(program);
        var wall = System.nanoTime() - started;
        return new Answer(wall, SYSTEM.getProcessCpuTime() - cpu, program.found());
    }
}
