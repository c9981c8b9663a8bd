/*
 * Waiting with a deadline of the monotonic clock, for the plugin and for its probe. Signals do not cut calls short: EINTR is retried.
 */
#ifndef SEINE_DEADLINE_H
#define SEINE_DEADLINE_H

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

static inline int64_t now_ms(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Waits until `fd` is ready for `events`. Returns 0 or an errno; ETIMEDOUT at the deadline. */
static inline int wait_for(int fd, short events, int64_t deadline) {
  for (;;) {
    int64_t now = now_ms(), left = deadline > now ? deadline - now : 0;
    if (left <= 0) return ETIMEDOUT;
    struct pollfd entry = {.fd = fd, .events = events};
    int ready = poll(&entry, 1, left > INT_MAX ? INT_MAX : (int)left);
    if (ready > 0) return 0; /* hang-up and errors show in the call that follows */
    if (ready < 0 && errno != EINTR) return errno;
  }
}

static inline int send_all(int fd, const char *bytes, size_t length, int64_t deadline) {
  for (size_t at = 0; at < length;) {
    ssize_t put = send(fd, bytes + at, length - at, MSG_NOSIGNAL);
    if (put >= 0) {
      at += (size_t)put;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return errno;
    int failed = wait_for(fd, POLLOUT, deadline);
    if (failed) return failed;
  }
  return 0;
}

#endif
