import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * How a judge talks: a request is some lines and an empty one, and so is its answer. It goes on until
 * the input ends, so that one JVM serves a whole run of tests.
 *
 * <p>A request that cannot be served is answered by one line: '!' and why.
 */
final class Talk {
  private static final PrintStream OUT =
      new PrintStream(
          new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16),
          false,
          StandardCharsets.UTF_8);

  /** Answers a request by calls of {@link #say}. */
  interface Judge {
    void answer(List<String> request) throws Exception;
  }

  private Talk() {}

  static void serve(Judge judge) throws Exception {
    // What a library prints is no answer.
    System.setOut(System.err);
    InputStreamReader in =
        new InputStreamReader(new FileInputStream(FileDescriptor.in), StandardCharsets.UTF_8);
    try (BufferedReader lines = new BufferedReader(in, 1 << 16)) {
      List<String> request = new ArrayList<>();
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        if (!line.isEmpty()) {
          request.add(line);
          continue;
        }
        try {
          judge.answer(request);
        } catch (Throwable trouble) {
          trouble.printStackTrace();
          say("!" + why(trouble).replaceAll("[\\r\\n]+", " "));
        }
        say("");
        OUT.flush();
        request.clear();
      }
    }
    // Whatever threads a library has left.
    Runtime.getRuntime().halt(0);
  }

  static void say(String line) {
    OUT.append(line).append('\n');
  }

  static void say(byte[] line) {
    OUT.write(line, 0, line.length);
    OUT.append('\n');
  }

  /** A line that stands by itself before the answer is complete. */
  static void sayNow(String line) {
    say(line);
    OUT.flush();
  }

  /** The innermost cause. */
  static String why(Throwable trouble) {
    Throwable cause = trouble;
    while (cause.getCause() != null && cause.getCause() != cause) {
      cause = cause.getCause();
    }
    return cause == trouble ? cause.toString() : trouble.getClass().getSimpleName() + ": " + cause;
  }
}
