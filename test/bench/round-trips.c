/*
 * Exchanges small messages, one at a time: measures the round-trip time.
 *
 *   round-trips serve ADDRESS PORT           echoes each message over TCP, for one client after another
 *   round-trips ask ADDRESS PORT COUNT       prints the median of COUNT round trips, in microseconds
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE_BYTES 64
#define WARM_UP 500

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

static void all_of(int fd, char *bytes)
{
	for (ssize_t have = 0, got; have < MESSAGE_BYTES; have += got)
		if ((got = read(fd, bytes + have, MESSAGE_BYTES - have)) <= 0)
			die("read");
}

static void serve(int fd)
{
	char bytes[MESSAGE_BYTES];
	ssize_t got;
	while ((got = read(fd, bytes, sizeof bytes)) > 0)
		if (write(fd, bytes, got) != got)
			break;
	close(fd);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void ask(int fd, int count)
{
	char bytes[MESSAGE_BYTES] = "?";
	double *took = calloc(count, sizeof *took);
	for (int i = -WARM_UP; i < count; i++) {
		double started = now();
		if (write(fd, bytes, sizeof bytes) != sizeof bytes)
			die("write");
		all_of(fd, bytes);
		if (i >= 0)
			took[i] = now() - started;
	}
	qsort(took, count, sizeof *took, ascending);
	printf("%.2f\n", took[count / 2]);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		die("usage");
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[3])) };
	inet_pton(AF_INET, argv[2], &to.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (!strcmp(argv[1], "ask")) {
		if (connect(fd, (struct sockaddr *)&to, sizeof to))
			die("connect");
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		ask(fd, atoi(argv[4]));
		return 0;
	}
	if (bind(fd, (struct sockaddr *)&to, sizeof to) || listen(fd, 8))
		die("listen");
	puts("listening");
	fflush(stdout);
	for (int client; (client = accept(fd, NULL, NULL)) >= 0;) {
		setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		serve(client);
	}
	return 0;
}
