/*
 * `seine --probe livez|readyz|readyz/rollout SOCKET [SECONDS]`: asks the agent how it is, over its socket, as the kubelet's probes do. A port of
 * the node would be any process's to bind first, and to answer on. Ends with 0 if the answer is good, with 1 and the reason on
 * stderr if it is not or none comes in time, and with 2 for a command line that makes no sense. probe.ts is the same for Node.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "deadline.h"

/* One less than the manifest's `timeoutSeconds`, so that the reason is told before the kubelet gives up. */
#define SECONDS 4
#define SECONDS_MAX 3600

static int usage(void) {
  fputs("seine: --probe livez|readyz|readyz/rollout SOCKET [SECONDS]\n", stderr);
  return 2;
}

static int fail(const char *path, const char *reason) {
  fprintf(stderr, "seine: the agent at %s: %s\n", path, reason);
  return 1;
}

/* A connected socket that does not block, or a negative errno. A full queue of connections is waited for until the deadline. */
static int connect_until(const char *path, int64_t deadline) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) return -ENAMETOOLONG;
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -errno;
  for (;;) {
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) return fd;
    int failed = errno;
    if (failed != EAGAIN && failed != EINTR) {
      close(fd);
      return -failed;
    }
    if (now_ms() >= deadline) {
      close(fd);
      return -ETIMEDOUT;
    }
    struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    nanosleep(&pause, NULL);
  }
}

/* Reads to the end, or as much as there is room for. Returns 0 or an errno. */
static int read_answer(int fd, char *into, size_t room, int64_t deadline) {
  size_t length = 0;
  into[0] = '\0';
  while (length + 1 < room) {
    ssize_t got = recv(fd, into + length, room - 1 - length, 0);
    if (got == 0) return 0;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != EAGAIN) return errno;
    if (got < 0) {
      int failed = wait_for(fd, POLLIN, deadline);
      if (failed) return failed;
      continue;
    }
    length += (size_t)got;
    into[length] = '\0';
  }
  return 0;
}

/* The agent answers 503 if it is asked too much at once: it lives. */
static int judge(const char *path, const char *what, const char *answer) {
  int status = 0;
  if (sscanf(answer, "HTTP/1.1 %3d", &status) != 1) return fail(path, "what it answers is no HTTP");
  if (status == 200 || (status == 503 && strcmp(what, "livez") == 0)) return 0;
  const char *body = strstr(answer, "\r\n\r\n");
  return fail(path, body && body[4] ? body + 4 : "it refuses without a reason");
}

static int is_known(const char *what) {
  return strcmp(what, "livez") == 0 || strcmp(what, "readyz") == 0 || strcmp(what, "readyz/rollout") == 0;
}

int probe_agent(int argc, char **argv) {
  if (argc < 2 || argc > 3 || !is_known(argv[0])) return usage();
  char *end = NULL;
  long seconds = argc == 3 ? strtol(argv[2], &end, 10) : SECONDS;
  if (seconds < 1 || seconds > SECONDS_MAX || (end && *end)) return usage();
  int64_t deadline = now_ms() + seconds * 1000;
  int fd = connect_until(argv[1], deadline);
  if (fd < 0) return fail(argv[1], strerror(-fd));
  char request[128], answer[4096];
  int length = snprintf(request, sizeof request, "GET /%s HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n", argv[0]);
  int failed = send_all(fd, request, (size_t)length, deadline);
  if (!failed) failed = read_answer(fd, answer, sizeof answer, deadline);
  close(fd);
  return failed ? fail(argv[1], strerror(failed)) : judge(argv[1], argv[0], answer);
}
