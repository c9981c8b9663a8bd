/*
 * Opens connections, each for one small request: measures their rate and duration.
 *
 *   connects serve ADDRESS PORT                  echoes each connection's message and waits for its end
 *   connects once ADDRESS PORT                   one
 *   connects ask ADDRESS PORT SECONDS WIDTH      WIDTH concurrently; prints connections a second, the median and the longest time in microseconds
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE_BYTES 64
#define SERVERS 4
#define SAMPLES_MAX 200000

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void serve(int listener)
{
	char bytes[MESSAGE_BYTES];
	for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd))
		for (ssize_t got; (got = read(fd, bytes, sizeof bytes)) > 0;)
			if (write(fd, bytes, got) != got)
				break;
}

/* Ends with a reset, so that no port stays in TIME_WAIT. */
static void once(const struct sockaddr_in *to)
{
	struct linger at_once = { .l_onoff = 1 };
	char bytes[MESSAGE_BYTES] = "?";
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, (const struct sockaddr *)to, sizeof *to))
		die("connect");
	if (write(fd, bytes, sizeof bytes) != sizeof bytes)
		die("write");
	for (ssize_t have = 0, got; have < MESSAGE_BYTES; have += got)
		if ((got = read(fd, bytes + have, MESSAGE_BYTES - have)) <= 0)
			die("read");
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	close(fd);
}

static void ask(const struct sockaddr_in *to, double seconds, int report)
{
	float *took = malloc(SAMPLES_MAX * sizeof *took);
	int count = 0;
	for (double end = now() + seconds * 1e6, started; (started = now()) < end && count < SAMPLES_MAX;) {
		once(to);
		took[count++] = now() - started;
	}
	if (write(report, &count, sizeof count) != sizeof count)
		die("report");
	for (size_t sent = 0; sent < count * sizeof *took;) {
		ssize_t wrote = write(report, (char *)took + sent, count * sizeof *took - sent);
		if (wrote <= 0)
			die("report");
		sent += wrote;
	}
}

static void all_of(int fd, void *into, size_t size)
{
	for (size_t have = 0; have < size;) {
		ssize_t got = read(fd, (char *)into + have, size - have);
		if (got <= 0)
			die("a worker ended");
		have += got;
	}
}

static int ascending(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

static void ask_many(const struct sockaddr_in *to, double seconds, int width)
{
	int (*pipes)[2] = calloc(width, sizeof *pipes), total = 0;
	float *took = malloc((size_t)width * SAMPLES_MAX * sizeof *took);
	for (int each = 0; each < width; each++) {
		if (pipe(pipes[each]))
			die("pipe");
		if (fork() == 0) {
			ask(to, seconds, pipes[each][1]);
			exit(0);
		}
		close(pipes[each][1]);
	}
	for (int each = 0, count; each < width; each++, total += count) {
		all_of(pipes[each][0], &count, sizeof count);
		all_of(pipes[each][0], took + total, count * sizeof *took);
	}
	while (wait(NULL) > 0)
		;
	qsort(took, total, sizeof *took, ascending);
	printf("%.1f %.1f %.1f\n", total / seconds, total ? took[total / 2] : 0, total ? took[total - 1] : 0);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		die("usage");
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[3])) };
	inet_pton(AF_INET, argv[2], &to.sin_addr);
	if (!strcmp(argv[1], "ask") && argc == 6) {
		ask_many(&to, atof(argv[4]), atoi(argv[5]));
		return 0;
	}
	if (!strcmp(argv[1], "once")) {
		once(&to);
		return 0;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (struct sockaddr *)&to, sizeof to) || listen(fd, 256))
		die("listen");
	puts("listening");
	fflush(stdout);
	for (int each = 1; each < SERVERS; each++)
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			break;
		}
	serve(fd);
	return 0;
}
