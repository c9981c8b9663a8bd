/*
 * Opens connections as fast as the host allows: UDP datagrams of one byte, each to another port or from another one.
 *
 *   floods ADDRESS SECONDS     prints the number of datagrams a second
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define BATCH 64
/* Sockets, each with a source port of its own. */
#define SOURCES 64
#define FIRST_PORT 1024

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to[BATCH];
	struct mmsghdr messages[BATCH] = { 0 };
	struct iovec byte = { .iov_base = "?", .iov_len = 1 };
	int sources[SOURCES];
	unsigned port = FIRST_PORT, source = 0;
	unsigned long sent = 0;
	if (argc != 3)
		return 2;
	for (int at = 0; at < SOURCES; at++)
		if ((sources[at] = socket(AF_INET, SOCK_DGRAM, 0)) < 0)
			return perror("socket"), 1;
	for (int at = 0; at < BATCH; at++) {
		to[at] = (struct sockaddr_in){ .sin_family = AF_INET };
		if (inet_pton(AF_INET, argv[1], &to[at].sin_addr) != 1)
			return 2;
		messages[at].msg_hdr = (struct msghdr){ .msg_name = &to[at], .msg_namelen = sizeof to[at], .msg_iov = &byte, .msg_iovlen = 1 };
	}
	const double begin = now(), end = begin + atof(argv[2]);
	while (now() < end) {
		for (int at = 0; at < BATCH; at++) {
			to[at].sin_port = htons(port);
			if (++port > 65535) {
				port = FIRST_PORT;
				source = (source + 1) % SOURCES;
			}
		}
		int done = sendmmsg(sources[source], messages, BATCH, 0);
		if (done > 0)
			sent += done; /* an answer "port unreachable" fails the next call */
	}
	printf("%.0f\n", sent / (now() - begin));
	return 0;
}
