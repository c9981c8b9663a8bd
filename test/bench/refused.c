/*
 * Opens connections that are refused, and measures the time until each refusal.
 *
 *   refused ADDRESS PORT COUNT RATE      COUNT connections, RATE a second; prints the number of refusals, their median and 99th percentile in
 *                                        microseconds, and the connections a second
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_S 3

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

static void until(double time)
{
	double left = time - now();
	if (left > 0)
		usleep(left);
}

/* 1 if the connection was refused, 0 if nothing answered. */
static int is_refused(const struct sockaddr_in *to)
{
	struct timeval limit = { .tv_sec = TIMEOUT_S };
	int fd = socket(AF_INET, SOCK_STREAM, 0), failed, error;
	if (fd < 0)
		die("socket");
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	failed = connect(fd, (const struct sockaddr *)to, sizeof *to);
	error = errno;
	close(fd);
	if (!failed) {
		fputs("connected\n", stderr);
		exit(1);
	}
	return error == ECONNREFUSED;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		die("usage");
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[2])) };
	int count = atoi(argv[3]), refused = 0;
	double rate = atof(argv[4]), *took = calloc(count, sizeof *took), begun = now();
	inet_pton(AF_INET, argv[1], &to.sin_addr);
	for (int each = 0; each < count; each++) {
		until(begun + each * 1e6 / rate);
		double started = now();
		if (is_refused(&to))
			took[refused++] = now() - started;
	}
	double seconds = (now() - begun) / 1e6;
	qsort(took, refused, sizeof *took, ascending);
	printf("%d %.1f %.1f %.1f\n", refused, refused ? took[refused / 2] : 0, refused ? took[refused * 99 / 100] : 0, count / seconds);
	return 0;
}
