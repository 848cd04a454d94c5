// Loaded before the C library, shows a wall clock that is CLOCK_AHEAD seconds ahead.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    const char *ahead = getenv("CLOCK_AHEAD");
    if (!failed && clock == CLOCK_REALTIME && ahead)
        now->tv_sec += atol(ahead);
    return failed;
}
