/*
 * `seine --join SOCKET`: copies standard input to the agent's socket, and its answers to standard output, until either end closes. Through it, one
 * exec into the agent's container carries the HTTP requests of a client elsewhere. join.ts is the same for Node.
 */
#include "join.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "deadline.h"

/* Time without a byte in either direction after which the client counts as gone: a runtime may keep the streams of a client that is. */
#define IDLE_MS (5 * 60 * 1000)
/* After the end of the input: time for the answer, and time without a byte of it. */
#define REST_MS 5000
#define REST_IDLE_MS 1000
/*
 * Written once the agent is connected: an interim response of HTTP/1.1 (RFC 9110, 15.2), which a client passes over. Plugins without this option
 * print nothing before their input ends, so that a client recognizes them by the silence.
 */
static const char greeting[] = "HTTP/1.1 102 Processing\r\n\r\n";

static int fail(const char *path, int failed) {
  fprintf(stderr, "seine: the agent at %s: %s\n", path, strerror(failed));
  return 1;
}

static int connect_to(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) return -ENAMETOOLONG;
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  while (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
    if (errno == EINTR) continue;
    int failed = errno;
    close(fd);
    return -failed;
  }
  return fd;
}

/* Copies what is there to read. Returns the number of bytes, 0 at the end, or a negative errno. Blocks while the reader is slow. */
static ssize_t copy(int from, int to) {
  char bytes[16 * 1024];
  ssize_t got = read(from, bytes, sizeof bytes);
  if (got < 0) return errno == EINTR || errno == EAGAIN ? 1 : -errno;
  for (ssize_t at = 0; at < got;) {
    ssize_t put = write(to, bytes + at, (size_t)(got - at));
    if (put >= 0) at += put;
    else if (errno == EAGAIN) wait_for(to, POLLOUT, now_ms() + IDLE_MS);
    else if (errno != EINTR) return -errno;
  }
  return got;
}

static int copy_both(const char *path, int agent) {
  int64_t end = 0; /* time at which the rest of the answer is given up, once the input has ended */
  for (;;) {
    struct pollfd ends[2] = {{.fd = agent, .events = POLLIN}, {.fd = end ? -1 : STDIN_FILENO, .events = POLLIN}};
    int ready = poll(ends, 2, end ? REST_IDLE_MS : IDLE_MS);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return fail(path, errno);
    if (ready == 0 || (end && now_ms() >= end)) return 0;
    if (ends[0].revents) {
      ssize_t got = copy(agent, STDOUT_FILENO);
      if (got < 0) return fail(path, (int)-got);
      if (got == 0) return 0;
    }
    if (ends[1].revents) {
      ssize_t got = copy(STDIN_FILENO, agent);
      if (got < 0) return fail(path, (int)-got);
      if (got == 0) end = now_ms() + REST_MS;
    }
  }
}

int join_agent(int argc, char **argv) {
  if (argc != 1) {
    fputs("seine: --join SOCKET\n", stderr);
    return 2;
  }
  int agent = connect_to(argv[0]);
  if (agent < 0) return fail(argv[0], -agent);
  if (write(STDOUT_FILENO, greeting, sizeof greeting - 1) < 0) return fail(argv[0], errno);
  return copy_both(argv[0], agent);
}
