#ifndef SEINE_JOIN_H
#define SEINE_JOIN_H

/* `seine --join SOCKET`, without the first two words. Returns the exit code. */
int join_agent(int argc, char **argv);

#endif
