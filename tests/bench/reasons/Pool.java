// SPDX-License-Identifier: Apache-2.0
// Threads of an executor: a queue of jobs, a monitor around a table, a lock with
// a condition. Pool SECONDS
import java.util.HashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;

public class Pool {
    private static final HashMap<Integer, Long> table = new HashMap<>();

    private static void work(int job, Semaphore done) {
        synchronized (table) {
            table.merge(job % 100, (long) job, Long::sum);
            if (job % 7 == 0) {
                try {
                    Thread.sleep(3);
                } catch (InterruptedException e) {
                    return;
                }
            }
        }
        done.release();
    }

    public static void main(String[] arguments) throws Exception {
        long end = System.nanoTime() +
            Long.parseLong(arguments[0]) * 1_000_000_000L;
        ExecutorService pool = Executors.newFixedThreadPool(6);
        Semaphore done = new Semaphore(0);
        System.out.println("ready");
        for (int job = 0; System.nanoTime() < end; job++) {
            final int number = job;
            pool.submit(() -> work(number, done));
            done.acquire();
            Thread.sleep(1);
        }
        pool.shutdownNow();
    }
}
